// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file in which AggregateIPFlows describes flows, in XML.

use std::io::Write;

use element::Cx;
use sync::os::reason;

use super::flows::Flow;

use crate::io::files::Output;
use crate::tools::seconds;

/// The file.
pub(super) struct TraceInfo {
    output: Output,
    /// Standard output may go on, so it gets no end.
    closes: bool,
    source: Option<String>,
    begun: bool,
}

impl TraceInfo {
    /// With the element whose handlers say what the packets come from.
    pub(super) fn new(output: Output, closes: bool, source: Option<String>) -> TraceInfo {
        TraceInfo { output, closes, source, begun: false }
    }

    fn ask(&self, cx: &mut Cx<'_>, handler: &str) -> Option<String> {
        let name = format!("{}.{handler}", self.source.as_ref()?);
        cx.read_handler(&name, "")
            .ok()
            .map(|answer| answer.trim().to_owned())
            .filter(|answer| !answer.is_empty())
    }

    /// Writes the head, once.
    pub(super) fn begin(&mut self, cx: &mut Cx<'_>) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let file = self.ask(cx, "filename").map_or(String::new(), |name| format!(" file='{name}'"));
        let _ = writeln!(self.output.buffer(), "<?xml version='1.0' standalone='yes'?>\n<trace{file}>");
    }

    /// Where in its file the packet of this moment is.
    pub(super) fn position(&self, cx: &mut Cx<'_>) -> u64 {
        self.ask(cx, "packet_filepos").and_then(|answer| answer.parse().ok()).unwrap_or(0)
    }

    /// Describes a flow that has ended.
    pub(super) fn flow(&mut self, flow: &Flow) {
        let [(src, sport), (dst, dport)] = flow.ends();
        let (begin, duration) = (seconds(flow.first_ns), seconds(flow.last_ns.saturating_sub(flow.first_ns)));
        let position =
            if flow.position > 0 { format!(" filepos='{}'", flow.position) } else { String::new() };
        let _ = writeln!(
            self.output.buffer(),
            "<flow aggregate='{}' src='{src}' sport='{sport}' dst='{dst}' dport='{dport}' begin='{begin}' \
             duration='{duration}'{position}>\n  <stream dir='0' packets='{}' /><stream dir='1' packets='{}' />\n</flow>",
            flow.number,
            flow.packets[0],
            flow.packets[1]
        );
    }

    /// Writes out what has gathered, if it is time.
    pub(super) fn wrote(&mut self) -> Result<(), String> {
        self.output.wrote().map_err(|e| reason(&e))
    }

    /// Writes the end.
    pub(super) fn end(mut self) -> Result<(), String> {
        if self.closes {
            self.output.buffer().extend_from_slice(b"</trace>\n");
        }
        self.output.flush().map_err(|e| reason(&e))
    }
}
