// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Message
//!
//! `Message(MESSAGE [, TYPE])`
//!
//! Prints a message when the configuration starts, or makes it fail.
//!
//! **Ports:** none.
//!
//! **Drops:** none.
//!
//! **Arguments**
//! * `MESSAGE` the text.
//! * `TYPE` `MESSAGE` (the default), `WARNING`, or `ERROR`: the configuration does not start.
//!
//! **Drops:** none.
//!
//! ```click
//! Message("Hello, world");
//! ```
//!
//! See also: Print, Script

use element::args::Args;
use element::{Class, Element, InitCx};

/// The descriptor.
pub const CLASS: Class = Class::new("Message", "0", || Box::new(Message::default())).file(file!());

#[derive(Default)]
struct Message {
    line: Option<String>,
}

impl Element for Message {
    fn configure(&mut self, args: &mut Args<'_>) {
        let message: String = args.required("MESSAGE");
        let kind: String = args.positional("TYPE", "MESSAGE".into());
        match kind.as_str() {
            "MESSAGE" => self.line = Some(message),
            "WARNING" => self.line = Some(format!("warning: {message}")),
            "ERROR" => args.error(message),
            _ => args.error(format!("TYPE should be MESSAGE, WARNING or ERROR, not '{kind}'")),
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if let Some(line) = self.line.take().filter(|_| cx.is_home()) {
            cx.print(&line);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn speaks_once_or_fails() {
        assert_eq!(Rig::text("Message(\"a b\");").run().printed(), "a b\n");
        assert_eq!(Rig::text("Message(x, WARNING);").run().printed(), "warning: x\n");
        assert_eq!(Rig::text("e :: Message(x, ERROR);").errors(), ["e: x"]);
        assert_eq!(Rig::text("e :: Message(x, Y);").errors().len(), 1);
    }
}
