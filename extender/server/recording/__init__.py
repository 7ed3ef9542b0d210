"""Recordings of calls: what was asked and answered, with the picture and the settings that it was decided by.

    recorder    what is noted, on the event loop's thread; backlog: what waits for the disk
    writer      the thread that writes; redact: what of a call may be written; disk: segments as files
    lines       what the files of a segment hold; segments: reading them
    replay      every call once more; differences: what two answers say differently

Rule: nothing is written that decisions do not read.
"""
