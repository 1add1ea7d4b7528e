"""Campaigns on many targets at once, each in a task of a Dask scheduler.

The client keeps each campaign's folder and decides; a worker runs one campaign in a
process of its own and sends its files back.  A task is never run twice: after an
interruption the next client settles the campaign from the folder.
"""
