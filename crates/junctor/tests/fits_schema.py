# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fails if a JSON file is not as a JSON Schema has it: fits_schema.py SCHEMA FILE."""

import json
import sys

try:
    import jsonschema
except ImportError:
    sys.exit(77)

schema, found = (json.load(open(name)) for name in sys.argv[1:])
jsonschema.Draft202012Validator(schema).validate(found)
