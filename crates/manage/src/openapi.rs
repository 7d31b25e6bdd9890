// SPDX-License-Identifier: MIT OR Apache-2.0
//! The OpenAPI document, from the table of routes.

use serde_json::{Map, Value, json};

use crate::resources::all;
use crate::route::{Method, Route};

/// The description of the API (OpenAPI 3.1). The same routes give the same document.
pub fn document() -> Value {
    let mut paths = Map::new();
    for route in all() {
        paths.entry(route.path).or_insert_with(|| json!({}))[route.method.name()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Junctor management API",
            "version": "1",
            "description": "Running routers of one machine: what they do, and how to change it. Over the Unix socket the user's \
                            number counts; over TCP each request needs a token or a client certificate.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": { "Problem": problem() },
            "responses": {
                "Problem": {
                    "description": "What went wrong (RFC 9457).",
                    "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
                },
            },
        },
    })
}

fn problem() -> Value {
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": { "type": "string", "description": "urn:junctor:problem: and a stable word." },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string", "description": "What happened." },
            "where": { "type": "string", "description": "The part of the request that it is about." },
            "fix": { "type": "string", "description": "How to fix it." },
        },
    })
}

/// The name of an operation: its method, and the path's fixed words.
fn id(route: &Route) -> String {
    let words = route.path.split('/').filter(|word| !matches!(*word, "" | "api" | "v1"));
    words.fold(route.method.name().to_owned(), |id, word| {
        let word = word.trim_matches(['{', '}']).replace(['.', '-'], "_");
        id + "_" + &word
    })
}

fn operation(route: &Route) -> Value {
    let parts = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let of_path = parts
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
    let of_query = route.query.iter().map(|(name, kind, text)| {
        json!({ "name": name, "in": "query", "description": text, "schema": { "type": kind } })
    });
    let (status, schema) = route.answer;
    let media_type = match route.path {
        "/metrics" => "text/plain",
        path if path.ends_with("/live") => "text/event-stream",
        path if path.ends_with("/result") => "*/*",
        _ => "application/json",
    };
    let mut operation = json!({
        "operationId": id(route),
        "summary": route.summary,
        "x-role": route.role.name(),
        "parameters": of_path.chain(of_query).collect::<Vec<_>>(),
        "responses": {
            status.to_string(): { "description": "Success.", "content": { media_type: { "schema": schema() } } },
            "default": { "$ref": "#/components/responses/Problem" },
        },
    });
    if let Some(body) = route.body {
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": body() } } });
    }
    if route.method == Method::Get {
        operation["x-changes"] = json!(false);
    }
    operation
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::route::Role;

    #[test]
    fn the_committed_document_is_this_one() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
        let text = format!("{:#}\n", document());
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == text,
            "docs/openapi.json is another one: 'junctor manage --openapi > docs/openapi.json'"
        );
    }

    #[test]
    fn operations_are_distinct_and_complete() {
        let mut seen = HashSet::new();
        for route in all() {
            assert!(seen.insert((route.method, route.path)), "{} twice", route.path);
            assert!(seen.len() < 1000 && route.summary.ends_with('.'), "{}", route.path);
            // Who only looks changes nothing, and who changes is more than a viewer.
            assert!(!route.changes() || route.role > Role::Viewer, "{}", route.path);
        }
        let ids: HashSet<String> = all().map(id).collect();
        assert_eq!(ids.len(), seen.len());
        assert!(seen.len() > 40, "{}", seen.len());
    }
}
