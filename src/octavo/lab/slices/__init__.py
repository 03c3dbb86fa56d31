"""Slices: the cells of a condition run at the same time, in turns of one short slice each, while the others are paused.

Slow noise of a shared machine (seconds and more) affects all cells of a turn equally, and cancels in their ratio. A
cell's slices of a round together are its trial.
"""
