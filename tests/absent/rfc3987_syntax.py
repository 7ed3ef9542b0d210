"""`import kubernetes` tries kubernetes_validate, that jsonschema, and that this parser for the format `iri`.

Its grammars take three seconds to compile. No installation has kubernetes_validate, and no test an `iri`.
"""

raise ImportError("left out by the tests: it takes seconds to import")
