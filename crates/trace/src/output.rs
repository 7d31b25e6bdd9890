// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where packets' ways are printed, and how.

use std::io;

use client::Client;
use observe::records::Step;
use serde_json::json;

use crate::fed::Fed;
use crate::{Error, story};

/// Standard output, until it takes no more.
#[derive(Default)]
pub struct Output {
    json: bool,
    /// Who names the routes.
    fed: Option<Fed>,
    /// Why it takes no more.
    ended: Option<io::Error>,
}

impl Output {
    /// For people, or with `json` a line of JSON for each packet. The control plane at the socket `routes` names the routes that packets have followed;
    /// `none` names none. By default that is the only one of this user.
    ///
    /// # Errors
    /// The control plane that was asked for does not answer, nor does the router.
    pub fn new(json: bool, routes: Option<&std::path::Path>, router: &mut Client) -> Result<Output, Error> {
        Ok(Output { json, fed: Fed::find(routes, router)?, ended: None })
    }

    /// Prints a packet's way; returns whether that was taken.
    pub(crate) fn print(&mut self, packet: u64, mut steps: Vec<Step>, left: &[String], tried: bool) -> bool {
        if let Some(fed) = &mut self.fed {
            fed.name(&mut steps);
        }
        let text = match self.json {
            true => {
                let (fields, steps) = (story::fields(&steps), story::steps(&steps));
                let object = json!({
                    "packet": packet, "tried": tried, "fields": fields, "steps": steps, "left": left
                });
                format!("{object}\n")
            }
            false => story::text(packet, &steps, left, tried),
        };
        if self.takes_more() {
            self.ended = report::say::print(text.as_bytes()).err();
        }
        self.takes_more()
    }

    pub(crate) fn takes_more(&self) -> bool {
        self.ended.is_none()
    }

    /// Why it takes no more.
    pub(crate) fn why_ended(&self) -> Option<&'static str> {
        self.ended.as_ref().map(|why| match why.kind() {
            io::ErrorKind::BrokenPipe => "their reader has gone",
            _ => "they cannot be printed",
        })
    }

    /// How it ended. A reader that has gone is no failure.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        match self.ended.take() {
            Some(why) if why.kind() != io::ErrorKind::BrokenPipe => Err(Error::Output(why)),
            _ => Ok(()),
        }
    }
}
