"""Slices: the cells of a condition are up together and run by turns, a moment each, while the others stand still.

What is slow on a shared machine (seconds and more) hits all cells of a turn alike, and cancels in their ratio. What a
cell yields in its slices of a round is its trial.
"""
