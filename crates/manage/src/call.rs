// SPDX-License-Identifier: MIT OR Apache-2.0
//! A request that has passed all checks, and what its function needs: parameters, body, who asks, and the routers.

use std::sync::Arc;

use client::Client;
use serde_json::Value;

use crate::access::Identity;
use crate::problem::Problem;
use crate::shared::Shared;
use crate::words::{shown, word};

/// A request.
pub struct Call {
    /// What the service has.
    pub shared: Arc<Shared>,
    /// Who asks.
    pub who: Identity,
    /// Parameters of the path.
    pub path: Vec<(String, String)>,
    /// Parameters of the query.
    pub query: Vec<(String, String)>,
    /// The body; null without one.
    pub body: Value,
    /// The header `Accept`.
    pub accept: String,
}

impl Call {
    /// A parameter of the path.
    pub fn part(&self, name: &str) -> &str {
        self.path.iter().find(|(of, _)| of == name).map_or("", |(_, value)| value)
    }

    /// A parameter of the query.
    pub fn asked(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    /// A number of the query, at most `most`.
    pub fn number(&self, name: &str, usual: u64, most: u64) -> Result<u64, Problem> {
        let Some(text) = self.asked(name) else { return Ok(usual) };
        match text.parse() {
            Ok(number) if number <= most => Ok(number),
            _ => Err(Problem::invalid(
                format!("query: {name}"),
                format!("'{}' is no number of at most {most}", shown(text)),
                format!("give a number from 0 to {most}, or leave it out for {usual}"),
            )),
        }
    }

    /// A word of the query that goes to a router: no spaces, no control characters.
    pub fn word(&self, name: &str) -> Result<Option<&str>, Problem> {
        self.asked(name).map(|text| word(text, &format!("query: {name}"))).transpose()
    }

    /// A text of the body.
    pub fn text(&self, name: &str) -> Result<Option<&str>, Problem> {
        match &self.body[name] {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            other => Err(wrong(name, other, "a text")),
        }
    }

    /// A number of the body, from 1 to `most`.
    pub fn count(&self, name: &str, most: u64) -> Result<Option<u64>, Problem> {
        match &self.body[name] {
            Value::Null => Ok(None),
            other => match other.as_u64() {
                Some(number) if (1..=most).contains(&number) => Ok(Some(number)),
                _ => Err(wrong(name, other, &format!("a number from 1 to {most}"))),
            },
        }
    }

    /// Refuses fields of the body that its schema does not have.
    pub fn only(&self, schema: &Value) -> Result<(), Problem> {
        let Some(body) = self.body.as_object() else {
            let detail = "the body is no JSON object";
            return Err(Problem::invalid(
                "body",
                detail,
                "send an object, with Content-Type: application/json",
            ));
        };
        let known = schema["properties"].as_object();
        let names =
            || known.into_iter().flat_map(|known| known.keys().cloned()).collect::<Vec<_>>().join(", ");
        match body.keys().find(|name| !known.is_some_and(|known| known.contains_key(*name))) {
            None => Ok(()),
            Some(name) => Err(Problem::invalid(
                format!("body: {}", shown(name)),
                "there is no such field",
                format!("the fields are {}", names()),
            )),
        }
    }

    /// Connects to the router of the path.
    pub fn client(&self) -> Result<Client, Problem> {
        self.shared.routers.client(self.part("router"))
    }
}

fn wrong(name: &str, found: &Value, expected: &str) -> Problem {
    let found = shown(&found.to_string());
    Problem::invalid(
        format!("body: {name}"),
        format!("expected {expected}, not {found}"),
        format!("send {expected}"),
    )
}
