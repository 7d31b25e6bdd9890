// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outline of a configuration: its classes, elements and variables, as they lie in each other.

use lang::syntax::{NameKind, Role};
use serde_json::{Value, json};

use crate::document::Document;

/// Compounds in each other that are shown.
const DEEPEST: usize = 64;

/// The outline of a text.
pub(crate) fn outline(document: &Document) -> Value {
    let syntax = document.syntax();
    let mut of_scope: Vec<Vec<usize>> = vec![Vec::new(); syntax.scopes().len()];
    for (number, name) in syntax.names().iter().enumerate() {
        if name.role == Role::Declares {
            of_scope[name.scope].push(number);
        }
    }
    Value::Array(of_scope[0].iter().map(|&n| symbol(document, &of_scope, n, 0)).collect())
}

fn symbol(document: &Document, of_scope: &[Vec<usize>], number: usize, depth: usize) -> Value {
    let syntax = document.syntax();
    let name = &syntax.names()[number];
    let (kind, mark) = match name.kind {
        NameKind::Class => (5, ""),
        NameKind::Element => (19, ""),
        NameKind::Variable => (13, "$"),
    };
    let inner = syntax.bodies(number).flat_map(|scope| &of_scope[scope]);
    let children: Vec<Value> =
        inner.filter(|_| depth < DEEPEST).map(|&n| symbol(document, of_scope, n, depth + 1)).collect();
    let class = name.class.map(|class| syntax.sources().snippet(class)).unwrap_or_default();
    json!({
        "name": format!("{mark}{}", syntax.text(number)),
        "detail": class,
        "kind": kind,
        "range": document.span(name.whole.to(name.span)),
        "selectionRange": document.span(name.span),
        "children": children,
    })
}
