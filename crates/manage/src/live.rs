// SPDX-License-Identifier: MIT OR Apache-2.0
//! Live values as server-sent events. One task samples a router for all its clients. A client that is too slow loses events, and
//! the service holds a few of them at most.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::{self, HeaderValue};
use axum::response::Response;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender, channel};

use crate::call::Call;
use crate::problem::{Kind, Problem};
use crate::shared::Shared;
use crate::stream;

/// Time between two events.
const INTERVAL: Duration = Duration::from_secs(1);
/// Events that wait for slow clients.
const WAITING: usize = 4;
/// Routers that are watched at the same time.
const WATCHED: usize = 32;

/// Streams by router.
#[derive(Default)]
pub struct Live(Mutex<HashMap<String, Sender<Arc<str>>>>);

impl Live {
    /// Joins the stream of a router; without one, begins it.
    fn join(&self, shared: &Arc<Shared>, router: &str) -> Result<Receiver<Arc<str>>, Problem> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = all.get(router) {
            return Ok(sender.subscribe());
        }
        if all.len() >= WATCHED {
            let detail = format!("{WATCHED} routers are watched already");
            return Err(Problem::new(Kind::Unavailable, detail).fix("end another stream"));
        }
        let (sender, receiver) = channel(WAITING);
        all.insert(router.to_owned(), sender.clone());
        tokio::spawn(sample(shared.clone(), router.to_owned(), sender));
        Ok(receiver)
    }

    /// Ends a stream that nobody reads; returns whether it did.
    fn leave(&self, router: &str, must: bool) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unread = all.get(router).is_none_or(|sender| sender.receiver_count() == 0);
        if must || is_unread {
            all.remove(router);
        }
        must || is_unread
    }
}

/// Samples a router until nobody looks, or it ends.
async fn sample(shared: Arc<Shared>, router: String, sender: Sender<Arc<str>>) {
    loop {
        let (inside, name) = (shared.clone(), router.clone());
        let look = tokio::task::spawn_blocking(move || inside.samplers.look(&*inside.routers, &name));
        match look.await {
            Ok(Ok(look)) => {
                let _ = sender.send(format!("event: rates\ndata: {}\n\n", look.rates).into());
            }
            Ok(Err(problem)) => {
                shared.live.leave(&router, true);
                let _ = sender.send(format!("event: end\ndata: {}\n\n", problem.json()).into());
                return;
            }
            Err(_) => {
                shared.live.leave(&router, true);
                return;
            }
        }
        tokio::time::sleep(INTERVAL).await;
        if shared.live.leave(&router, false) {
            return;
        }
    }
}

/// Answers with the stream of a router.
pub(crate) async fn begin(call: &Call) -> Result<Response, Problem> {
    let router = call.part("router").to_owned();
    if !call.shared.routers.list().iter().any(|found| found.name == router) {
        return Err(crate::words::absent("router", &router, "see /api/v1/routers"));
    }
    let mut receiver = call.shared.live.join(&call.shared, &router)?;
    let (mut sender, body) = stream::channel();
    tokio::spawn(async move {
        loop {
            let text: Arc<str> = match receiver.recv().await {
                Ok(text) => text,
                Err(RecvError::Lagged(lost)) => format!("event: lost\ndata: {lost}\n\n").into(),
                Err(RecvError::Closed) => return,
            };
            if sender.send_data(Bytes::copy_from_slice(text.as_bytes())).await.is_err() {
                return;
            }
        }
    });
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response)
}
