// SPDX-License-Identifier: MIT OR Apache-2.0
//! Short notation for JSON schemas: `"packets:integer What it counts."`.
//!
//! Types are `string`, `integer`, `number`, `boolean` and `any`; `?` after it allows null, and `*` after the name allows absence.

use serde_json::{Map, Value, json};

/// An object with these fields.
pub fn object(fields: &[&str]) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for field in fields {
        let (name, rest) = field.split_once(':').unwrap_or((field, "any"));
        let (kind, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let name = match name.strip_suffix('*') {
            Some(name) => name,
            None => {
                required.push(json!(name));
                name
            }
        };
        properties.insert(name.to_owned(), simple(kind, text));
    }
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// A value of a simple type.
fn simple(kind: &str, text: &str) -> Value {
    let (kind, nullable) = kind.strip_suffix('?').map_or((kind, false), |kind| (kind, true));
    let (kind, is_list) = kind.strip_prefix("[]").map_or((kind, false), |kind| (kind, true));
    let mut value = match (kind, is_list) {
        ("any", false) => json!({}),
        ("any", true) => json!({ "type": "array" }),
        (kind, true) => json!({ "type": "array", "items": { "type": kind } }),
        (kind, false) => json!({ "type": kind }),
    };
    if nullable && value["type"].is_string() {
        value["type"] = json!([value["type"].take(), "null"]);
    }
    if !text.is_empty() {
        value["description"] = json!(text);
    }
    value
}

/// An object with one more field.
pub fn with(mut object: Value, name: &str, schema: Value) -> Value {
    object["properties"][name] = schema;
    if let Some(required) = object["required"].as_array_mut() {
        required.push(json!(name));
    }
    object
}

/// A list of such values.
pub fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// An object of which nothing more is said here.
pub fn anything() -> Value {
    json!({})
}

/// Text.
pub fn text() -> Value {
    json!({ "type": "string" })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What of a value does not fit a schema; empty if all does. A naive reading of the keywords that [`object`] and [`with`] write.
    pub(crate) fn misfits(schema: &Value, value: &Value, at: &str) -> Vec<String> {
        let is = |kind: &str| match kind {
            "string" => value.is_string(),
            "integer" => value.is_u64() || value.is_i64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("unknown type {other}"),
        };
        let mut found = Vec::new();
        let kinds: Vec<&str> = match &schema["type"] {
            Value::String(kind) => vec![kind],
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => return found,
        };
        if !kinds.iter().any(|kind| is(kind)) {
            found.push(format!("{at}: {value} is none of {kinds:?}"));
        }
        for item in value.as_array().into_iter().flatten() {
            found.extend(misfits(&schema["items"], item, &format!("{at}[]")));
        }
        let Some(object) = value.as_object() else { return found };
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !object.contains_key(name) {
                found.push(format!("{at}.{name} is missing"));
            }
        }
        for (name, value) in object {
            match schema["properties"].get(name) {
                Some(schema) => found.extend(misfits(schema, value, &format!("{at}.{name}"))),
                None if schema["additionalProperties"] == false => {
                    found.push(format!("{at}.{name} is not described"))
                }
                None => {}
            }
        }
        found
    }

    #[test]
    fn the_notation_says_what_it_means() {
        let schema =
            with(object(&["a:string A text.", "b*:integer?", "c:[]string"]), "d", list(object(&["e:any"])));
        let fits = |value: Value| misfits(&schema, &value, "").is_empty();
        assert!(fits(json!({ "a": "x", "c": ["y"], "d": [{ "e": 1 }] })));
        assert!(fits(json!({ "a": "x", "b": null, "c": [], "d": [] })));
        assert!(!fits(json!({ "a": 1, "c": [], "d": [] })));
        assert!(!fits(json!({ "a": "x", "c": [1], "d": [] })));
        assert!(!fits(json!({ "a": "x", "c": [], "d": [{}] })));
        assert!(!fits(json!({ "a": "x", "c": [], "d": [], "f": 1 })));
        assert_eq!(schema["properties"]["a"]["description"], "A text.");
    }
}
