// SPDX-License-Identifier: MIT OR Apache-2.0
//! # InputSwitch
//!
//! `InputSwitch([INPUT])`
//!
//! Passes the packets of one input, which a handler can change, and drops those of all others.
//!
//! **Ports:** any number of push inputs, 1 push output.
//!
//! **Arguments**
//! * `INPUT` the input in use, default 0; negative: packets of all inputs are dropped.
//!
//! **Drops:** `inactive`, the packets of the other inputs.
//!
//! **Handlers**
//! * `switch` read/write: the input in use, -1 for none.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> [0] s :: InputSwitch(0) -> Discard;
//! Idle -> [1] s;
//! ```
//!
//! See also: Switch, PullSwitch, Suppressor

use element::args::Args;
use element::{Class, Cx, Element, Reason, handlers};
use packet::Batch;

use super::chosen::Chosen;

/// The descriptor.
pub const CLASS: Class = Class::new("InputSwitch", "-/1", || Box::new(InputSwitch::default()))
    .processing("h/h")
    .handlers(handlers! { InputSwitch:
        both "switch" => |switch| switch.input.text(), |switch, input: i32| switch.input.choose(input);
    })
    .pure()
    .file(file!());

#[derive(Default)]
struct InputSwitch {
    input: Chosen,
}

impl Element for InputSwitch {
    fn configure(&mut self, args: &mut Args<'_>) {
        let input: i32 = args.positional("INPUT", 0);
        let n = args.ninputs;
        if usize::try_from(input).is_ok_and(|i| i >= n.max(1)) {
            args.error_as(
                format!("INPUT must be less than {n}, the number of inputs, not {input}"),
                format!("input must be < {n}"),
            );
        }
        self.input = Chosen::new(input, args.ninputs);
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) {
        if self.input.port() == Some(port) {
            cx.push(0, batch);
        } else {
            cx.drop_batch(Reason::Inactive, batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    fn rig(element: &str) -> Rig {
        let text = format!(
            "i :: TestIn -> [0] e :: {element} -> o :: TestOut; InfiniteSource(b, LIMIT 2) -> [1] e;"
        );
        Rig::text(&text).inputs(&[b"a", b"a", b"a"])
    }

    #[test]
    fn one_input_passes() {
        for (element, want, dropped) in
            [("InputSwitch", &b"aaa"[..], 2), ("InputSwitch(1)", b"bb", 3), ("InputSwitch(-1)", b"", 5)]
        {
            for burst in [1, 32] {
                let run = rig(element).burst(burst).run();
                assert_eq!(run.bytes("o").concat(), want, "{element}");
                assert_eq!(run.drops("e"), [(Reason::Inactive, dropped)]);
            }
        }
    }

    #[test]
    fn the_handler_switches() {
        let mut run = rig("InputSwitch").run();
        assert_eq!(run.read("e.switch"), "0");
        run.write("e.switch", "1").unwrap();
        assert_eq!(run.read("e.switch"), "1");
        run.write("e.switch", "2").unwrap();
        assert_eq!(run.read("e.switch"), "-1");
        assert!(run.write("e.switch", "x").is_err());
        assert_eq!(
            rig("InputSwitch(2)").errors(),
            ["e: INPUT must be less than 2, the number of inputs, not 2"]
        );
    }
}
