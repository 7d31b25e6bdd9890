// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes: one entry for each method of each resource. Dispatch, roles and the OpenAPI document all come from them.

use serde_json::Value;

pub use crate::access::Role;
use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;

/// A method of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Reads.
    Get,
    /// Makes.
    Post,
    /// Replaces.
    Put,
    /// Removes.
    Delete,
}

impl Method {
    /// Its name in small letters.
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "get",
            Method::Post => "post",
            Method::Put => "put",
            Method::Delete => "delete",
        }
    }
}

/// What carries a request out.
#[derive(Clone, Copy)]
pub enum Run {
    /// A function that may wait for a router, on a thread of its own.
    Blocking(fn(&Call) -> Result<Answer, Problem>),
    /// The stream of live values.
    Live,
}

/// A parameter of the query: its name, type, and what it says.
pub type Parameter = (&'static str, &'static str, &'static str);

/// One method of one resource.
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, with `{name}` for parameters.
    pub path: &'static str,
    /// The role that a client needs.
    pub role: Role,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// Parameters of the query.
    pub query: &'static [Parameter],
    /// The schema of the body, if it takes one.
    pub body: Option<fn() -> Value>,
    /// The status and schema of an answer.
    pub answer: (u16, fn() -> Value),
    /// What carries it out.
    pub run: Run,
}

impl Route {
    /// A route that reads.
    pub const fn get(
        path: &'static str,
        summary: &'static str,
        schema: fn() -> Value,
        run: fn(&Call) -> Result<Answer, Problem>,
    ) -> Route {
        let (role, run) = (Role::Viewer, Run::Blocking(run));
        Route { method: Method::Get, path, role, summary, query: &[], body: None, answer: (200, schema), run }
    }

    /// The same by another method and for another role.
    #[must_use]
    pub const fn by(mut self, method: Method, role: Role) -> Route {
        (self.method, self.role) = (method, role);
        self
    }

    /// The same with parameters of the query.
    #[must_use]
    pub const fn with_query(mut self, query: &'static [Parameter]) -> Route {
        self.query = query;
        self
    }

    /// The same with a body.
    #[must_use]
    pub const fn with_body(mut self, body: fn() -> Value) -> Route {
        self.body = Some(body);
        self
    }

    /// The same with another status of success.
    #[must_use]
    pub const fn answers(mut self, status: u16) -> Route {
        self.answer.0 = status;
        self
    }

    /// Whether it changes anything, so that it is written to the audit log.
    pub fn changes(&self) -> bool {
        self.method != Method::Get
    }
}
