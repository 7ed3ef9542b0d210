"""Recordings of calls: requests and answers, with the cluster state and the settings that they were decided on.

    recorder    queues calls and object changes for a thread that writes them into segments
    redact      removes fields that decisions do not read
    disk        writes the files of segments
    lines       defines the file format of a segment
    segments    reads segments
    answer_diff compares two answers to a call, for server.replay

Rule: a recording holds only fields that decisions read.
"""
