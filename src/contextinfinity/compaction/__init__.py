"""Folding old turns away: where the newest topic begins, and where a fold cuts."""
