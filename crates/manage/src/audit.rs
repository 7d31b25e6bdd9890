// SPDX-License-Identifier: MIT OR Apache-2.0
//! The audit log: who did what, when, and with what result, as JSON lines.

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use serde_json::json;

/// One request.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Who; `-` if it is not known.
    pub who: &'a str,
    /// The other end of the connection.
    pub from: &'a str,
    /// The method and path.
    pub what: (&'a str, &'a str),
    /// The status of the answer.
    pub status: u16,
    /// Why it was refused, if it was.
    pub why: &'a str,
}

/// Where lines go.
pub struct Audit(Mutex<Box<dyn Write + Send>>);

impl Audit {
    /// Writes to this.
    pub fn new(to: impl Write + Send + 'static) -> Audit {
        Audit(Mutex::new(Box::new(to)))
    }

    /// Writes a line. A full disk does not stop the service.
    pub fn write(&self, now: std::time::SystemTime, entry: &Entry<'_>) {
        let seconds = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let mut line = json!({
            "time": seconds, "who": entry.who, "from": entry.from, "method": entry.what.0, "path": entry.what.1,
            "status": entry.status,
        });
        if !entry.why.is_empty() {
            line["why"] = json!(entry.why);
        }
        let mut to = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = to.write_all(format!("{line}\n").as_bytes()).and_then(|()| to.flush());
    }
}
