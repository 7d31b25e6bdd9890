// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a request to an answer: limits, origin, identity, role, body, and then the route's function on a thread of its own.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{Query, RawPathParams, Request};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method as Verb, StatusCode, Uri};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::Value;

use crate::access::{Identity, Peer};
use crate::answer::Answer;
use crate::audit::Entry;
use crate::browser::{self, Headers};
use crate::call::Call;
use crate::limits::{FAILED, Holding, Way};
use crate::page;
use crate::problem::{Kind, Problem};
use crate::resources;
use crate::route::{self, Method, Route, Run};
use crate::shared::Shared;
use crate::stream;
use crate::words::{LONGEST, shown};

/// The largest body.
pub const BODY: usize = 4 << 20;
/// Values that a body may have: each takes many times the memory of its text.
const VALUES: usize = 4096;
/// How long a body may take to come.
const TO_COME: Duration = Duration::from_secs(15);
/// How long a request waits for others.
const TURN: Duration = Duration::from_secs(5);
/// How long a request may take altogether.
const ALTOGETHER: Duration = Duration::from_secs(60);
/// Requests of one client that are carried out at the same time.
const AT_ONCE_EACH: usize = 6;

impl Shared {
    /// Checks a request for a file of the page, which needs no identity.
    fn admit_to_page(&self, peer: &Peer, request: &Request) -> Result<(), Problem> {
        self.take(&peer.key())?;
        let host = request.uri().authority().map(|authority| authority.as_str());
        // A link from elsewhere may lead here: the files hold nothing.
        let host = host.or(header_of(request.headers(), header::HOST));
        browser::check(&Headers { host, ..Headers::default() }, &self.hosts, peer.uid.is_none())
    }

    /// Counts a request of a client.
    fn take(&self, key: &str) -> Result<(), Problem> {
        self.rates().take(key, 1.0, Instant::now()).map_err(|wait| {
            let fix = format!("wait for {:.2} s", wait.as_secs_f64().max(0.01));
            Problem::new(Kind::TooMany, "too many requests came from there").fix(fix)
        })
    }

    /// Checks a request before anything is done for it; returns who asks.
    fn admit(&self, peer: &Peer, request: &Request) -> Result<Identity, Problem> {
        let key = peer.key();
        self.take(&key)?;
        let text = |name: HeaderName| header_of(request.headers(), name);
        let host = request.uri().authority().map(|authority| authority.as_str());
        let headers = Headers {
            host: host.or(text(header::HOST)),
            origin: text(header::ORIGIN),
            site: text(HeaderName::from_static("sec-fetch-site")),
        };
        browser::check(&headers, &self.hosts, peer.uid.is_none())?;
        let is_scrape = request.uri().path() == "/metrics" && is_read(request.method());
        if self.has_open_metrics && is_scrape {
            return Ok(Identity { name: "-".into(), role: route::Role::Viewer });
        }
        // A header that is no text is no token either.
        let shown =
            request.headers().get(header::AUTHORIZATION).map(|value| value.to_str().unwrap_or_default());
        self.access.identify(peer, shown).inspect_err(|_| self.rates().charge(&key, FAILED))
    }

    fn record(&self, peer: &Peer, who: &str, what: (&str, &str), response: &Response) {
        let status = response.status().as_u16();
        if let Some(count) = self.answered.get(usize::from(status / 100).wrapping_sub(1)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let is_noted = response.extensions().get::<Noted>().is_some() || matches!(status, 401 | 403);
        if is_noted {
            let why = response.extensions().get::<Problem>().map_or("", |problem| problem.detail.as_str());
            let path: String = what.1.chars().take(512).collect();
            let entry = Entry { who, from: &peer.key(), what: (what.0, &path), status, why };
            self.audit.write(SystemTime::now(), &entry);
        }
    }
}

/// A request that is written to the audit log.
#[derive(Clone, Copy)]
struct Noted;

fn is_read(method: &Verb) -> bool {
    matches!(*method, Verb::GET | Verb::HEAD)
}

fn header_of(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    // One that is no text is of no origin that is known.
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// The service: it answers requests of all connections.
#[derive(Clone)]
pub struct App {
    shared: Arc<Shared>,
    router: axum::Router,
}

impl App {
    /// The service over all routes.
    pub fn new(shared: Arc<Shared>) -> App {
        let mut router = axum::Router::new();
        for route in resources::all() {
            let filter = match route.method {
                Method::Get => MethodFilter::GET,
                Method::Post => MethodFilter::POST,
                Method::Put => MethodFilter::PUT,
                Method::Delete => MethodFilter::DELETE,
            };
            let shared = shared.clone();
            let handler = move |parts: Result<RawPathParams, RawPathParamsRejection>, request: Request| {
                answered(shared.clone(), route, parts, request)
            };
            router = router.route(route.path, on(filter, handler));
        }
        let router = router.fallback(absent).method_not_allowed_fallback(not_allowed);
        App { shared, router }
    }

    /// What the service has.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Answers a request.
    pub async fn answer(&self, peer: &Peer, request: Request) -> Result<Response, Infallible> {
        let what = (request.method().to_string(), request.uri().path().to_owned());
        if let Some(file) = page::file(request.method(), request.uri().path()) {
            let mut response = match self.shared.admit_to_page(peer, &request) {
                Ok(()) => file,
                Err(problem) => refusal(&problem),
            };
            self.shared.record(peer, "-", (&what.0, &what.1), &response);
            harden(response.headers_mut());
            return Ok(response);
        }
        // A request that has been let in is carried out and recorded, also if its client goes away meanwhile.
        let (app, peer) = (self.clone(), peer.clone());
        let done = tokio::spawn(async move { app.admitted(&peer, request, (&what.0, &what.1)).await }).await;
        let broken = |_| refusal(&Problem::new(Kind::Internal, "the request ended before its answer"));
        let mut response = done.unwrap_or_else(broken);
        harden(response.headers_mut());
        Ok(response)
    }

    /// Lets a request in, carries it out, and records it.
    async fn admitted(&self, peer: &Peer, mut request: Request, what: (&str, &str)) -> Response {
        use tower_service::Service as _;
        let is_change = !is_read(request.method());
        let (who, response) = match self.shared.admit(peer, &request) {
            Ok(who) => {
                let name = who.name.clone();
                request.extensions_mut().insert(who);
                request.extensions_mut().insert(ClientKey(self.shared.access.way(peer), peer.key()));
                let done = tokio::time::timeout(ALTOGETHER, self.router.clone().call(request)).await;
                let late = || {
                    let problem = Problem::new(Kind::TimedOut, "the request took longer than a minute");
                    let mut response = refusal(&problem);
                    // What it began goes on.
                    if is_change {
                        response.extensions_mut().insert(Noted);
                    }
                    response
                };
                (name, done.map_or_else(|_| late(), |Ok(response)| response))
            }
            Err(problem) => ("-".to_owned(), refusal(&problem)),
        };
        self.shared.record(peer, &who, what, &response);
        response
    }
}

/// What a browser must not do with an answer.
fn harden(headers: &mut HeaderMap) {
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
        ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
        ("cross-origin-resource-policy", "same-origin"),
        ("referrer-policy", "no-referrer"),
    ] {
        // The page has a policy of its own.
        headers.entry(HeaderName::from_static(name)).or_insert(HeaderValue::from_static(value));
    }
}

/// Whose request it is, for limits.
#[derive(Clone)]
struct ClientKey(Way, String);

async fn absent(uri: Uri) -> Response {
    let detail = format!("there is nothing at '{}'", shown(uri.path()));
    refusal(&Problem::new(Kind::NotFound, detail).at("path").fix("see /api/v1/openapi.json"))
}

async fn not_allowed(method: Verb, uri: Uri) -> Response {
    let detail = format!("'{}' does not have the method {}", shown(uri.path()), shown(method.as_str()));
    refusal(&Problem::new(Kind::MethodNotAllowed, detail).at("method").fix("see /api/v1/openapi.json"))
}

/// The answer to a request that was not carried out.
fn refusal(problem: &Problem) -> Response {
    let mut response = Response::new(Body::from(problem.json().to_string()));
    *response.status_mut() =
        StatusCode::from_u16(problem.kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    match problem.kind {
        Kind::Unauthenticated => headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
        Kind::TooMany | Kind::Unavailable => {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"))
        }
        // What is left of the body is not read.
        Kind::TooLarge | Kind::Slow => headers.insert(header::CONNECTION, HeaderValue::from_static("close")),
        _ => None,
    };
    response.extensions_mut().insert(problem.clone());
    response
}

async fn answered(
    shared: Arc<Shared>,
    route: &'static Route,
    parts: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Response {
    let mut response =
        carried_out(shared, route, parts, request).await.unwrap_or_else(|problem| refusal(&problem));
    if route.role > route::Role::Viewer {
        response.extensions_mut().insert(Noted);
    }
    response
}

async fn carried_out(
    shared: Arc<Shared>,
    route: &'static Route,
    parts: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let unknown = || Problem::new(Kind::Internal, "nobody knows who asks");
    let who = request.extensions().get::<Identity>().cloned().ok_or_else(unknown)?;
    let key = request.extensions().get::<ClientKey>().cloned().ok_or_else(unknown)?;
    if who.role < route.role {
        let detail = format!(
            "this needs the role {}, and '{}' has the role {}",
            route.role.name(),
            who.name,
            who.role.name()
        );
        return Err(
            Problem::new(Kind::Forbidden, detail).fix("ask an administrator for a token of that role")
        );
    }
    let wrong = |_| {
        Problem::invalid(
            "path",
            "a part of the path is no text in UTF-8",
            "encode names as UTF-8 and percent signs",
        )
    };
    let path =
        parts.map_err(wrong)?.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let query = query(route, request.uri())?;
    let accept = header_of(request.headers(), header::ACCEPT).unwrap_or_default().to_owned();
    let mut holding = Holding::new(&shared.held, key.0, &key.1);
    let body = if route.body.is_some() { Some(body(request, &mut holding).await?) } else { None };
    let mut call = Call { shared: shared.clone(), who, path, query, body: Value::Null, accept };
    match route.run {
        Run::Live => crate::live::begin(&call).await,
        Run::Blocking(run) => {
            let run = move || {
                let _held_until_then = holding;
                call.body = body.map_or(Ok(Value::Null), |bytes| parse(&bytes))?;
                run(&call)
            };
            let answer = in_turn(&shared, &key, run).await?;
            response(route, answer, Holding::new(&shared.held, key.0, &key.1)).await
        }
    }
}

/// Runs a function on a thread of its own, when it is its turn.
async fn in_turn<T: Send + 'static>(
    shared: &Arc<Shared>,
    key: &ClientKey,
    run: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let busy = || {
        Problem::new(Kind::Unavailable, "other requests are being carried out").fix("try again in a moment")
    };
    let place = Place::take(shared, &key.1).ok_or_else(busy)?;
    let turns = shared.turns[key.0 as usize].clone();
    let turn = tokio::time::timeout(TURN, turns.acquire_owned()).await;
    let turn = turn.ok().and_then(Result::ok).ok_or_else(busy)?;
    let done = tokio::task::spawn_blocking(move || {
        let done = run();
        drop((turn, place));
        done
    });
    done.await.unwrap_or_else(|_| Err(Problem::new(Kind::Internal, "the request's function panicked")))
}

/// One of the requests that a client may have carried out at the same time.
struct Place(Arc<Shared>, String);

impl Place {
    fn take(shared: &Arc<Shared>, key: &str) -> Option<Place> {
        let mut all = shared.at_once.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.entry(key.to_owned()).or_default();
        if *own >= AT_ONCE_EACH {
            return None;
        }
        *own += 1;
        Some(Place(shared.clone(), key.to_owned()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.0.at_once.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = all.get_mut(&self.1) {
            *own -= 1;
            if *own == 0 {
                all.remove(&self.1);
            }
        }
    }
}

/// The parameters of the query, if the route has them.
fn query(route: &Route, uri: &Uri) -> Result<Vec<(String, String)>, Problem> {
    let fix = || match route.query {
        [] => "leave the query out".to_owned(),
        known => {
            format!("the parameters are {}", known.iter().map(|one| one.0).collect::<Vec<_>>().join(", "))
        }
    };
    let wrong = |place: String, detail: &str| Problem::invalid(place, detail, fix());
    let parsed = Query::<Vec<(String, String)>>::try_from_uri(uri);
    let Query(query) = parsed.map_err(|_| wrong("query".into(), "the query is not understood"))?;
    for (at, (name, value)) in query.iter().enumerate() {
        let place = || format!("query: {}", shown(name));
        if !route.query.iter().any(|known| known.0 == name) {
            return Err(wrong(place(), "there is no such parameter"));
        }
        if query[..at].iter().any(|(before, _)| before == name) {
            return Err(wrong(place(), "the parameter is there twice"));
        }
        if value.len() > LONGEST {
            return Err(wrong(place(), "the value is too long"));
        }
    }
    Ok(query)
}

/// The bytes of the body, which are held for the client as they come.
async fn body(request: Request, holding: &mut Holding) -> Result<Vec<u8>, Problem> {
    let media_type = header_of(request.headers(), header::CONTENT_TYPE).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        let problem = Problem::new(Kind::MediaType, format!("the body's type is '{}'", shown(media_type)));
        return Err(problem.at("header: Content-Type").fix("send application/json"));
    }
    let mut body = Limited::new(request.into_body(), BODY);
    let gathering = async {
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|why| match why.downcast_ref::<LengthLimitError>() {
                Some(_) => {
                    Problem::new(Kind::TooLarge, format!("the body has more than {BODY} bytes")).at("body")
                }
                None => Problem::invalid("body", "the body was cut short", "send all of it"),
            })?;
            let Ok(data) = frame.into_data() else { continue };
            if !holding.grow(data.len()) {
                return Err(too_much());
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes)
    };
    tokio::time::timeout(TO_COME, gathering).await.map_err(|_| {
        Problem::new(Kind::Slow, format!("the body had not come after {} s", TO_COME.as_secs())).at("body")
    })?
}

/// What a client gets for which as many bytes are held as may be.
fn too_much() -> Problem {
    let detail = "too many bytes of bodies, and of answers that were not taken, are there already";
    Problem::new(Kind::Unavailable, detail).fix("take the answers to requests under way, then try again")
}

/// The body as JSON.
fn parse(bytes: &[u8]) -> Result<Value, Problem> {
    if values(bytes) > VALUES {
        let detail = format!("the body has more than {VALUES} values");
        return Err(Problem::invalid("body", detail, "send the object that the API's description has"));
    }
    let wrong = |why: serde_json::Error| {
        Problem::invalid("body", format!("this is no JSON: {why}"), "send one JSON object")
    };
    serde_json::from_slice(bytes).map_err(wrong)
}

/// How many values a text of JSON has at most. Each but the first begins an array or an object, or stands behind a comma.
fn values(bytes: &[u8]) -> usize {
    let (mut count, mut is_text, mut is_escaped) = (1, false, false);
    for byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b',' | b'[' | b'{' if !is_text => count += 1,
            _ => {}
        }
    }
    count
}

/// The response of an answer. What of it is in memory is held for the client until it has taken it.
async fn response(route: &Route, answer: Answer, mut holding: Holding) -> Result<Response, Problem> {
    let mut headers = HeaderMap::new();
    let held = |text: String| match holding.grow(text.len()) {
        true => Ok(stream::text(text, holding)),
        false => Err(too_much()),
    };
    let json = "application/json";
    let (body, media_type) = match answer {
        Answer::Json(value) => (held(value.to_string())?, json),
        Answer::Made(value, place) => {
            if let Ok(place) = HeaderValue::from_str(&place) {
                headers.insert(header::LOCATION, place);
            }
            (held(value.to_string())?, json)
        }
        Answer::Text(media_type, text) => (held(text)?, media_type),
        Answer::File(path, media_type, name) => {
            let (body, length) = stream::file(path).await?;
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
                headers.insert(header::CONTENT_DISPOSITION, value);
            }
            (body, media_type)
        }
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(route.answer.0).unwrap_or(StatusCode::OK);
    *response.headers_mut() = headers;
    Ok(response)
}

#[cfg(test)]
mod tests;
