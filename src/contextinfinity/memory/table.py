"""All the phrases, in the order in which they are looked for: what is over, what is so, what is wanted."""

from __future__ import annotations

from contextinfinity.memory.endings import CHANGES, ENDINGS
from contextinfinity.memory.habits import HABITS
from contextinfinity.memory.phrases import ROWS
from contextinfinity.memory.wishes import WISHES

TABLE = (*ENDINGS, *ROWS, *HABITS, *WISHES, *CHANGES)
