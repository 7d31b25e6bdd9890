// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Suppressor
//!
//! `Suppressor()`
//!
//! Passes packets from each input to the output of the same number, except where a port is suppressed.
//!
//! **Ports:** any number of inputs, push or pull, and as many outputs.
//!
//! At first every port is active. Handlers suppress ports, and so do elements that are given a Suppressor by name, as
//! EtherSpanTree is. What is pushed into a suppressed port is dropped; who pulls from one gets nothing, and what waits behind
//! it goes on waiting.
//!
//! **Drops:** `inactive`, what was pushed into a suppressed port.
//!
//! **Handlers**
//! * `active0`, `active1`, ... read/write: whether each port is active.
//! * `reset` write: makes all ports active.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> s :: Suppressor -> Discard;
//! Script(write s.active0 false);
//! ```
//!
//! See also: Switch, EtherSpanTree

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use element::args::Args;
use element::{
    Access, Class, Cx, Element, HandlerError, OwnHandlers, Provide, Provided, Reason, SharedState, Sharing,
    handlers,
};
use packet::Batch;

use crate::tools::boolean;

/// The descriptor.
pub const CLASS: Class = Class::new("Suppressor", "-/=", || Box::new(Suppressor::default()))
    .flow("#/#")
    .sharing(Sharing::Shared)
    .handlers(handlers! { Suppressor:
        write "reset" => |suppressor| (0..suppressor.0.ports()).for_each(|port| suppressor.0.suppress(port, false));
    })
    .shared_state::<Suppressor>().own_handlers::<Suppressor>().provide::<Suppressor>().file(file!());

/// Which ports of a Suppressor are suppressed, for all workers and for elements that name it.
#[derive(Debug, Default)]
pub struct Gates(Vec<AtomicBool>);

impl Gates {
    /// Whether `port` passes nothing; so it is where there is no such port.
    #[inline]
    pub fn is_suppressed(&self, port: usize) -> bool {
        self.0.get(port).is_none_or(|gate| gate.load(Ordering::Relaxed))
    }

    /// Lets `port` pass nothing, or everything.
    pub fn suppress(&self, port: usize, suppressed: bool) {
        if let Some(gate) = self.0.get(port) {
            gate.store(suppressed, Ordering::Relaxed);
        }
    }

    /// How many ports there are.
    pub fn ports(&self) -> usize {
        self.0.len()
    }
}

#[derive(Default)]
struct Suppressor(Arc<Gates>);

impl Suppressor {
    fn port(&self, name: &str) -> Result<usize, HandlerError> {
        let port = name.strip_prefix("active").and_then(|port| port.parse().ok());
        port.filter(|port| *port < self.0.ports()).ok_or_else(|| HandlerError::unknown(name))
    }
}

impl Element for Suppressor {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.0 = Arc::new(Gates((0..args.ninputs).map(|_| AtomicBool::new(false)).collect()));
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) {
        if self.0.is_suppressed(port) {
            cx.drop_batch(Reason::Inactive, batch);
        } else {
            cx.push(port, batch);
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) -> Batch {
        if self.0.is_suppressed(port) { Batch::new() } else { cx.pull(port, max) }
    }
}

impl Provide for Suppressor {
    fn provide(&self) -> Option<Provided> {
        Some(self.0.clone())
    }
}

impl OwnHandlers for Suppressor {
    fn own_handlers(&self) -> Vec<(String, Access)> {
        (0..self.0.ports()).map(|port| (format!("active{port}"), Access::ReadWrite)).collect()
    }

    fn read(&mut self, _: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        let port = self.port(name)?;
        Ok((!self.0.is_suppressed(port)).to_string())
    }

    fn write(&mut self, _: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let port = self.port(name)?;
        self.0.suppress(port, !boolean(name, value)?);
        Ok(())
    }
}

impl SharedState for Suppressor {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(Suppressor(self.0.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    const TWO: &str =
        "i :: TestIn -> e :: Suppressor -> o0 :: TestOut; j :: TestIn -> [1] e [1] -> o1 :: TestOut;";

    #[test]
    fn each_port_by_itself() {
        for burst in [1, 32] {
            let give = |run: &crate::testing::Run| {
                for source in ["i", "j"] {
                    run.give(source, vec![packet::Packet::copy_of(source.as_bytes()).unwrap()]);
                }
            };
            let mut run = Rig::text(TWO).burst(burst).ready();
            run.write("e.active1", "false").unwrap();
            give(&run);
            let mut run = run.again();
            assert_eq!((run.bytes("o0"), run.bytes("o1")), (vec![b"i".to_vec()], vec![]));
            assert_eq!(run.drops("e"), [(Reason::Inactive, 1)]);
            assert_eq!((run.read("e.active0"), run.read("e.active1")), ("true".into(), "false".into()));
            run.write("e.reset", "").unwrap();
            give(&run);
            let mut run = run.again();
            assert_eq!((run.bytes("o0").len(), run.bytes("o1")), (1, vec![b"j".to_vec()]));
            assert!(run.write("e.active0", "perhaps").is_err());
            assert!(run.write("e.active2", "true").is_err());
        }
    }

    #[test]
    fn what_waits_behind_it_goes_on_waiting() {
        let text = "i :: TestIn -> q :: Queue -> e :: Suppressor -> u :: Unqueue -> o0 :: TestOut;";
        let mut run = Rig::text(text).inputs(&[b"a", b"b"]).ready();
        run.write("e.active0", "false").unwrap();
        let mut run = run.run_for(std::time::Duration::from_secs(1));
        assert_eq!((run.bytes("o0").len(), run.read("q.length").as_str()), (0, "2"));
    }
}
