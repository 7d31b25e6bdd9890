// SPDX-License-Identifier: MIT OR Apache-2.0
//! # PullSwitch, SimplePullSwitch, StaticPullSwitch
//!
//! `PullSwitch([INPUT])`
//!
//! Fetches all packets from one input, which a handler can change.
//!
//! **Ports:** any number of pull inputs, 1 pull output.
//!
//! **Arguments**
//! * `INPUT` the input in use, default 0; negative, or beyond the last: nothing is fetched. StaticPullSwitch has no default.
//!
//! **Drops:** none.
//!
//! **Handlers** (not of StaticPullSwitch)
//! * `switch` read/write: the input in use, -1 for none. `config` reads the same way.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Queue -> [0] s :: PullSwitch -> Discard;
//! Idle -> [1] s;
//! ```
//!
//! See also: Switch, PrioSched, RoundRobinSched

use element::args::Args;
use element::{Class, Cx, Element, Handler, handlers};
use packet::Batch;

use super::chosen::{Chosen, LLRPCS};

const HANDLERS: &[Handler] = handlers! { PullSwitch:
    both "switch" => |switch| switch.input.text(), |switch, input: i32| switch.input.choose(input);
    read "config" => |switch| switch.input.text();
};

const fn class(name: &'static str) -> Class {
    Class::new(name, "-/1", || Box::new(PullSwitch::default()))
        .processing("l/l")
        .handlers(HANDLERS)
        .pure()
        .file(file!())
}

/// The descriptor.
pub const PULL_SWITCH: Class = class("PullSwitch").llrpcs(LLRPCS);
/// The descriptor of a synonym.
pub const SIMPLE: Class = class("SimplePullSwitch");
/// The descriptor of the switch that cannot be changed.
pub const STATIC: Class =
    Class::new("StaticPullSwitch", "-/1", || Box::new(PullSwitch { fixed: true, ..PullSwitch::default() }))
        .processing("l/l")
        .pure()
        .file(file!());

#[derive(Default)]
struct PullSwitch {
    input: Chosen,
    fixed: bool,
}

impl Element for PullSwitch {
    fn configure(&mut self, args: &mut Args<'_>) {
        let input = if self.fixed { args.required("INPUT") } else { args.positional("INPUT", 0) };
        self.input = Chosen::new(input, args.ninputs);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        self.input.port().map_or_else(Batch::new, |input| cx.pull(input, max))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn fetches_from_one_input() {
        for class in ["PullSwitch(1)", "SimplePullSwitch(1)", "StaticPullSwitch(1)"] {
            let text = format!(
                "a :: InfiniteSource(a, 2) -> [0] e :: {class} -> Unqueue -> o :: TestOut; b :: InfiniteSource(b, 3) -> [1] e;"
            );
            assert_eq!(Rig::text(&text).run().bytes("o"), [b"b"; 3]);
        }
    }

    #[test]
    fn the_handler_switches() {
        let text =
            "InfiniteSource(a, 2) -> [0] e :: PullSwitch(-1) -> Unqueue -> o :: TestOut; Idle -> [1] e;";
        let mut run = Rig::text(text).run();
        assert_eq!((run.bytes("o").len(), run.read("e.switch").as_str()), (0, "-1"));
        run.write("e.switch", "0").unwrap();
        assert_eq!(run.again().bytes("o"), [b"a"; 2]);
    }
}
