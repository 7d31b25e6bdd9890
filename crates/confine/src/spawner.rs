// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts threads for others. A thread inherits the filter of the one that starts it, so what a worker has done on the side would
//! be confined as workers are. This thread is confined as services are, and starts it instead.

use std::io;
use std::sync::mpsc::{Sender, channel};

type Body = Box<dyn FnOnce() + Send>;

/// A thread that starts others. It ends when all copies of this are gone.
#[derive(Clone)]
pub struct Spawner(Sender<(String, Body)>);

impl Spawner {
    /// Begins with the rights of the calling thread.
    ///
    /// # Errors
    /// There is no further thread.
    pub fn start() -> io::Result<Spawner> {
        let (sender, jobs) = channel::<(String, Body)>();
        let body = move || {
            for (name, body) in jobs {
                // A job that finds no thread is dropped, and those who wait for it see that.
                let _ = std::thread::Builder::new().name(name).spawn(body);
            }
        };
        std::thread::Builder::new().name("spawner".into()).spawn(body)?;
        Ok(Spawner(sender))
    }

    /// Has `body` run by a new thread of this name.
    ///
    /// # Errors
    /// The thread that starts others is gone.
    pub fn spawn(&self, name: &str, body: Body) -> io::Result<()> {
        self.0
            .send((name.to_owned(), body))
            .map_err(|_| io::Error::other("no thread can be started any more"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_started_for_others() {
        let spawner = Spawner::start().unwrap();
        let (tell, told) = channel();
        spawner
            .spawn(
                "named",
                Box::new(move || tell.send(std::thread::current().name().map(str::to_owned)).unwrap()),
            )
            .unwrap();
        assert_eq!(told.recv().unwrap().as_deref(), Some("named"));
    }
}
