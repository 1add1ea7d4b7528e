"""Campaigns on many targets at once, each in a task of a Dask scheduler.

The client keeps each campaign's folder and decides; a worker runs one campaign in a
process of its own and sends back what that stored.  A task is never run twice: what an
end in its midst left is settled by the next client, from the folder.
"""
