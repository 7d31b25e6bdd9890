// SPDX-License-Identifier: MIT OR Apache-2.0
//! # SetAnnoByte
//!
//! `SetAnnoByte(ANNO, VALUE)`
//!
//! Sets one byte of each packet's annotations.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `ANNO` the byte, by offset (0 to 47) or name; `OFFSET` is a synonym.
//! * `VALUE` 0 to 255.
//!
//! **Metadata set:** the annotation at ANNO.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `anno`, `offset` read: the byte's offset. `value` read/write: the argument.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> SetAnnoByte(PAINT, 3) -> Discard;
//! ```
//!
//! See also: Paint

use element::args::Args;
use element::{Class, Cx, Element, handlers};
use packet::Batch;

use crate::tools::Anno;

/// The descriptor.
pub const CLASS: Class = Class::new("SetAnnoByte", "1/1", || Box::new(SetAnnoByte::default()))
    .handlers(handlers! { SetAnnoByte:
        read "anno" => .anno.0;
        read "offset" => .anno.0;
        both "value" => .value;
    })
    .pure()
    .reconfigurable()
    .forwards()
    .file(file!());

#[derive(Default)]
struct SetAnnoByte {
    anno: Anno<1>,
    value: u8,
}

impl Element for SetAnnoByte {
    fn configure(&mut self, args: &mut Args<'_>) {
        let named = args.keyword_opt("OFFSET");
        self.anno = named.unwrap_or_else(|| args.required("ANNO"));
        self.value = args.required("VALUE");
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        for packet in batch.iter_mut() {
            packet.set_anno_u8(self.anno.0, self.value);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn sets_the_byte() {
        let mut run = Rig::new("SetAnnoByte(47, 9)").inputs(&[b"a", b"b"]).run();
        assert!(run.out("o0").iter().all(|p| p.anno_u8(47) == 9));
        assert_eq!((run.read("e.offset"), run.read("e.value")), ("47".into(), "9".into()));
        assert_eq!(Rig::new("SetAnnoByte(48, 9)").errors().len(), 1);
    }
}
