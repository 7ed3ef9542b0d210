"""Admission: what an API server makes of an object before kube-scheduler sees it.

    manifest -> decode (schema) -> defaults -> admission plugins -> strategy -> validation -> the object as stored

Works on parsed manifests (dicts with JSON values), because it reads fields that decisions do not. Objects with a UID
have been stored by an API server already, and are left as they are by the callers.
"""
