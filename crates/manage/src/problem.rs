// SPDX-License-Identifier: MIT OR Apache-2.0
//! What went wrong with a request, as problem details (RFC 9457): what, where, and how to fix it.

use client::Failure;
use serde_json::{Value, json};

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", kind.title())]
pub struct Problem {
    /// What kind of problem it is.
    pub kind: Kind,
    /// What happened, in a sentence.
    pub detail: String,
    /// Which part of the request it is about, such as `query: limit`; empty if it is about the whole.
    pub place: String,
    /// How to fix it; empty if the detail says so.
    pub fix: String,
}

/// The kinds of problems. Each is a status of HTTP and a stable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A part of the request is wrong.
    Invalid,
    /// The client has not said who it is, or not credibly.
    Unauthenticated,
    /// The client's role does not suffice.
    Forbidden,
    /// The request came from a web page of another origin, or for another host.
    ForeignOrigin,
    /// There is no such resource.
    NotFound,
    /// The resource does not have this method.
    MethodNotAllowed,
    /// The request took too long to come.
    Slow,
    /// The resource is not in the state for this.
    Conflict,
    /// The body is too large.
    TooLarge,
    /// The body is not of the expected type.
    MediaType,
    /// The client asks too often.
    TooMany,
    /// The router refused.
    Refused,
    /// The router's answer was not understood, or it ended.
    Broken,
    /// No router answers, or there is no room for the request now.
    Unavailable,
    /// The router did not answer in time.
    TimedOut,
    /// The service has failed.
    Internal,
}

impl Kind {
    /// The status of HTTP.
    pub fn status(self) -> u16 {
        match self {
            Kind::Invalid => 400,
            Kind::Unauthenticated => 401,
            Kind::Forbidden | Kind::ForeignOrigin => 403,
            Kind::NotFound => 404,
            Kind::MethodNotAllowed => 405,
            Kind::Slow => 408,
            Kind::Conflict => 409,
            Kind::TooLarge => 413,
            Kind::MediaType => 415,
            Kind::Refused => 422,
            Kind::TooMany => 429,
            Kind::Internal => 500,
            Kind::Broken => 502,
            Kind::Unavailable => 503,
            Kind::TimedOut => 504,
        }
    }

    /// The stable word, last in the type's URI.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Invalid => "invalid",
            Kind::Unauthenticated => "unauthenticated",
            Kind::Forbidden => "forbidden",
            Kind::ForeignOrigin => "foreign-origin",
            Kind::NotFound => "not-found",
            Kind::MethodNotAllowed => "method-not-allowed",
            Kind::Slow => "slow-request",
            Kind::Conflict => "conflict",
            Kind::TooLarge => "too-large",
            Kind::MediaType => "media-type",
            Kind::Refused => "refused",
            Kind::TooMany => "too-many-requests",
            Kind::Internal => "internal",
            Kind::Broken => "router-broken",
            Kind::Unavailable => "unavailable",
            Kind::TimedOut => "router-timeout",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Kind::Invalid => "The request is wrong",
            Kind::Unauthenticated => "Authentication is required",
            Kind::Forbidden => "The role does not suffice",
            Kind::ForeignOrigin => "The request comes from a foreign origin",
            Kind::NotFound => "There is no such resource",
            Kind::MethodNotAllowed => "The resource does not have this method",
            Kind::Slow => "The request came too slowly",
            Kind::Conflict => "The state does not allow it",
            Kind::TooLarge => "The body is too large",
            Kind::MediaType => "The body has an unexpected type",
            Kind::Refused => "The router refused",
            Kind::TooMany => "Too many requests",
            Kind::Internal => "The service failed",
            Kind::Broken => "The router did not answer as expected",
            Kind::Unavailable => "Not available now",
            Kind::TimedOut => "The router did not answer in time",
        }
    }
}

impl Problem {
    /// A problem of this kind.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Problem {
        Problem { kind, detail: detail.into(), place: String::new(), fix: String::new() }
    }

    /// A part of the request is wrong.
    pub fn invalid(place: impl Into<String>, detail: impl Into<String>, fix: impl Into<String>) -> Problem {
        Problem { kind: Kind::Invalid, detail: detail.into(), place: place.into(), fix: fix.into() }
    }

    /// The same with a remedy.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Problem {
        self.fix = fix.into();
        self
    }

    /// The same with a remedy, if something took too long.
    #[must_use]
    pub fn if_late(self, fix: &str) -> Problem {
        if self.kind == Kind::TimedOut { self.fix(fix) } else { self }
    }

    /// The same about a part of the request.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Problem {
        self.place = place.into();
        self
    }

    /// The object of RFC 9457.
    pub fn json(&self) -> Value {
        let mut object = json!({
            "type": format!("urn:junctor:problem:{}", self.kind.word()),
            "title": self.kind.title(),
            "status": self.kind.status(),
            "detail": self.detail,
        });
        if !self.place.is_empty() {
            object["where"] = json!(self.place);
        }
        if !self.fix.is_empty() {
            object["fix"] = json!(self.fix);
        }
        object
    }
}

impl From<Failure> for Problem {
    fn from(why: Failure) -> Problem {
        let kind = match &why {
            Failure::Refused(510 | 511, _) => Kind::NotFound,
            Failure::Refused(..) => Kind::Refused,
            Failure::Unclear(_) => Kind::NotFound,
            Failure::Ended => Kind::Broken,
            Failure::Unreachable(text) if text.contains("has not answered") => Kind::TimedOut,
            Failure::Unreachable(text) if text.contains("not understood") => Kind::Broken,
            _ => Kind::Unavailable,
        };
        let fix = match kind {
            Kind::NotFound => "see /api/v1/routers/{router}/elements for what there is",
            Kind::Broken => "see the router's log, and whether it still runs",
            _ => "",
        };
        Problem::new(kind, why.to_string()).fix(fix)
    }
}

impl From<stats::Error> for Problem {
    fn from(why: stats::Error) -> Problem {
        Problem::new(Kind::Unavailable, why.to_string())
    }
}
