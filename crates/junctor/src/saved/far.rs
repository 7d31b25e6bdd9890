// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor config --remote`: the same commands by a management API. The service's machine prints; here it is passed on.

use client::Failure;
use manage::remote::{Service, encoded};
use serde_json::{Value, json};

use super::Stop;
use crate::{exit, outcome, remote};

impl From<Failure> for Stop {
    fn from(why: Failure) -> Stop {
        match why {
            Failure::Unclear(why) => Stop::Usage(why),
            // What the command there calls a wrong command.
            Failure::Refused(400 | 422, why) => Stop::Usage(why),
            other => Stop::Failed(other.to_string()),
        }
    }
}

/// A service with saved configurations behind a management API.
pub(super) struct Far {
    service: Service,
    path: String,
}

impl Far {
    /// The one of this name; the only one without a name.
    pub(super) fn new(service: Service, name: Option<&str>) -> Result<Far, Stop> {
        let name = match name.or(service.named()) {
            Some(name) => name.to_owned(),
            None => {
                let answer = service.ask("GET", "/api/v1/config", None).map_err(remote::failure)?;
                let all = answer["services"].as_array().into_iter().flatten();
                let names: Vec<&str> = all.filter_map(|known| known["name"].as_str()).collect();
                match names[..] {
                    [one] => one.to_owned(),
                    [] => {
                        return Err(Stop::Failed(
                            "that machine has no service with saved configurations".into(),
                        ));
                    }
                    _ => {
                        let which = names.join(", ");
                        return Err(Stop::Usage(format!("several services: {which}; choose one by --name")));
                    }
                }
            }
        };
        Ok(Far { path: format!("/api/v1/config/{}", encoded(&name)), service })
    }

    fn ask(&self, verb: &str, path: &str, body: Option<&Value>) -> Result<Value, Stop> {
        Ok(self.service.ask(verb, &format!("{}/{path}", self.path), body).map_err(remote::failure)?)
    }

    /// Prints what a resource says, as text or JSON.
    fn print(&self, path: &str, as_json: bool) -> Result<u8, Stop> {
        let format = if as_json { "json" } else { "text" };
        let path = format!("{}/{path}?format={format}", self.path);
        let mut bytes = self.service.fetch(&path).map_err(remote::failure)?;
        if as_json {
            bytes.push(b'\n');
        }
        Ok(outcome::print_or_fail(&bytes))
    }

    pub(super) fn history(&self, as_json: bool) -> Result<u8, Stop> {
        self.print("history", as_json)
    }

    pub(super) fn show(&self, commit: Option<u64>, file: Option<&str>, as_json: bool) -> Result<u8, Stop> {
        let commit = commit.map_or_else(|| "confirmed".to_owned(), |commit| commit.to_string());
        let Some(file) = file else { return self.print(&format!("commits/{commit}"), as_json) };
        let answer = self.ask("GET", &format!("commits/{commit}/file?path={}", encoded(file)), None)?;
        Ok(outcome::print_or_fail(answer["text"].as_str().unwrap_or_default().as_bytes()))
    }

    /// The difference, as the command's JSON.
    pub(super) fn diff(&self, from: Option<u64>, to: Option<u64>) -> Result<Value, Stop> {
        let number = |name: &str, number: Option<u64>| number.map(|number| format!("{name}={number}"));
        let query: Vec<String> = number("from", from).into_iter().chain(number("to", to)).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        self.ask("GET", &format!("diff{mark}{}", query.join("&")), None)
    }

    pub(super) fn check(&self, as_json: bool) -> Result<u8, Stop> {
        let answer = self.ask("POST", "check", None)?;
        let is_sound = answer["sound"] == true;
        let text = answer["text"].as_str().unwrap_or_default();
        match (as_json, is_sound) {
            (true, _) => outln!("{}", answer["diagnostics"]),
            (false, true) => out!("{text}"),
            (false, false) => err!("{text}"),
        }
        if is_sound { Ok(exit::SUCCESS) } else { Err(Stop::Wrong) }
    }

    pub(super) fn confirm(&self) -> Result<u8, Stop> {
        let answer = self.ask("POST", "confirm", None)?;
        let said = answer["message"].as_str().unwrap_or_default();
        Ok(outcome::print_or_fail(format!("{said}\n").as_bytes()))
    }

    /// What applying the working files there would do.
    pub(super) fn plan(&self, as_json: bool) -> Result<u8, Stop> {
        let answer = self.ask("POST", "plan", None)?;
        if as_json {
            return Ok(outcome::print_or_fail(format!("{answer}\n").as_bytes()));
        }
        let actions = answer["actions"].as_array().into_iter().flatten();
        let lines: String =
            actions.filter_map(|action| action["text"].as_str()).map(|text| format!("{text}\n")).collect();
        let text = if lines.is_empty() { "no plane is touched\n".to_owned() } else { lines };
        Ok(outcome::print_or_fail(text.as_bytes()))
    }

    /// A transaction: `apply` or `rollback`. It goes on there if this command ends.
    pub(super) fn transaction(&self, what: &str, mut body: Value, as_json: bool) -> Result<u8, Stop> {
        if !as_json {
            body["format"] = json!("text");
        }
        let ended = remote::job(&self.service, &format!("{}/{what}", self.path), &body)?;
        err!("{}", ended.words);
        let printed = outcome::print_or_fail(&ended.result);
        Ok(if ended.status == exit::SUCCESS { printed } else { ended.status })
    }
}

/// Whole seconds, as the API takes them.
pub(super) fn seconds(milliseconds: Option<u64>) -> Result<Option<u64>, Stop> {
    match milliseconds {
        Some(ms) if ms % 1000 != 0 => {
            Err(Stop::Usage("with --remote, --confirm-within takes whole seconds".into()))
        }
        other => Ok(other.map(|ms| ms / 1000)),
    }
}
