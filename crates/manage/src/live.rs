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
pub struct Live(Mutex<HashMap<String, Sender<Bytes>>>);

impl Live {
    /// Joins the stream of a router; without one, begins it.
    fn join(&self, shared: &Arc<Shared>, router: &str) -> Result<Receiver<Bytes>, Problem> {
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
async fn sample(shared: Arc<Shared>, router: String, sender: Sender<Bytes>) {
    loop {
        let (inside, name) = (shared.clone(), router.clone());
        let event = tokio::task::spawn_blocking(move || {
            let look = inside.samplers.look(&*inside.routers, &name)?;
            Ok::<_, Problem>(format!("event: rates\ndata: {}\n\n", look.rates.json()))
        });
        match event.await {
            Ok(Ok(event)) => drop(sender.send(event.into())),
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

/// Passes events on to a client as it takes them. Of those that were too many, it gets the number.
async fn pass_on(mut receiver: Receiver<Bytes>, mut sender: stream::Sending) {
    loop {
        let event: Bytes = match receiver.recv().await {
            Ok(event) => event,
            Err(RecvError::Lagged(lost)) => format!("event: lost\ndata: {lost}\n\n").into(),
            Err(RecvError::Closed) => return,
        };
        if sender.send_data(event).await.is_err() {
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
    let receiver = call.shared.live.join(&call.shared, &router)?;
    let (sender, body) = stream::channel();
    tokio::spawn(pass_on(receiver, sender));
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    /// A client that takes nothing for a while: few events wait for it, and it gets the number of the others. Others get all of theirs.
    #[test]
    fn a_slow_reader_loses_events_and_holds_nobody_up() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (events, receiver) = channel::<Bytes>(WAITING);
            let mut quick = events.subscribe();
            let (sender, mut body) = stream::channel();
            let passing = tokio::spawn(pass_on(receiver, sender));
            for n in 0..20 {
                events.send(format!("event: rates\ndata: {n}\n\n").into()).unwrap();
                assert_eq!(quick.recv().await.unwrap(), format!("event: rates\ndata: {n}\n\n"));
                tokio::task::yield_now().await;
            }
            drop(events);
            let (mut got, mut lost) = (Vec::new(), 0);
            while let Some(frame) = body.frame().await {
                let text = String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap();
                let data = text.trim_end().rsplit(' ').next().unwrap().parse::<u64>().unwrap();
                match text.starts_with("event: lost") {
                    true => lost += data,
                    false => got.push(data),
                }
            }
            assert!(got.len() <= WAITING + 3 && lost > 0, "{got:?}, {lost} lost");
            assert_eq!(got.len() as u64 + lost, 20, "each is there or counted: {got:?}");
            assert!(got.is_sorted() && got.last() == Some(&19), "the newest ones are there: {got:?}");
            passing.await.unwrap();
        });
    }
}
