"""All phrase patterns in matching order: what is over, how to be answered, what is so."""

from __future__ import annotations

from contextinfinity.memory.endings import CHANGES, ENDINGS
from contextinfinity.memory.habits import HABITS
from contextinfinity.memory.phrases import ROWS
from contextinfinity.memory.wishes import WISHES

TABLE = (*ENDINGS, *WISHES, *ROWS, *HABITS, *CHANGES)
