// SPDX-License-Identifier: MIT OR Apache-2.0
//! The account of packets finds elements that lose some, send some that never came, or say wrongly what they hold.

mod common;
#[path = "common/source.rs"]
mod source;

use junctor_engine::args::Args;
use junctor_engine::{Class, Cx, Element, Reason};
use packet::{Batch, Packet};

use source::SOURCE;

/// What an element does with a batch: packets that it keeps, drops, loses, and makes; it sends on what is left.
#[derive(Clone, Copy, Default)]
struct Deeds {
    keeps: usize,
    /// What it says that it keeps.
    says: usize,
    drops: usize,
    loses: usize,
    makes: usize,
}

struct Doer(Deeds, Vec<Packet>);

impl Element for Doer {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        let Deeds { keeps, drops, loses, makes, .. } = self.0;
        self.1.extend(batch.drain(..keeps));
        cx.drop_batch(Reason::Filtered, batch.split_front(drops));
        drop(batch.split_front(loses));
        (0..makes).filter_map(|_| Packet::copy_of(b"more")).for_each(|packet| batch.push(packet));
        cx.push(0, batch);
    }

    fn held(&self) -> usize {
        self.0.says
    }
}

struct Sink;

impl Element for Sink {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn push(&mut self, _: &mut Cx<'_>, _: usize, batch: Batch) {
        drop(batch);
    }
}

static SINK: Class = Class::new("Sink", "1/0", || Box::new(Sink)).processing("h/h");

macro_rules! doers {
    ($($class:ident $name:literal $deeds:expr, $traits:ident;)*) => {
        $(static $class: Class = $traits(Class::new($name, "1/1", || Box::new(Doer($deeds, Vec::new()))).processing("h/h"));)*
        static ALL: &[&Class] = &[$(&$class),*];
    };
}

const fn plain(class: Class) -> Class {
    class
}

const fn begets(class: Class) -> Class {
    class.begets()
}

const fn consumes(class: Class) -> Class {
    class.consumes()
}

const NONE: Deeds = Deeds { keeps: 0, says: 0, drops: 0, loses: 0, makes: 0 };
const HONEST: Deeds = Deeds { keeps: 2, says: 2, drops: 1, ..NONE };

doers! {
    PASSES "Passes" NONE, plain;
    HONESTLY "Honest" HONEST, plain;
    LOSES "Loses" Deeds { loses: 3, ..HONEST }, plain;
    MAKES "Makes" Deeds { makes: 2, ..NONE }, plain;
    COPIES "Copies" Deeds { makes: 2, ..NONE }, begets;
    LOSES_COPIES "LosesCopies" Deeds { loses: 1, ..NONE }, begets;
    EATS "Eats" Deeds { loses: 3, ..NONE }, consumes;
    EATS_MORE "EatsMore" Deeds { makes: 1, ..NONE }, consumes;
    HIDES "Hides" Deeds { keeps: 2, says: 1, ..NONE }, plain;
    BOASTS "Boasts" Deeds { says: 1, ..NONE }, plain;
}

/// What is said of an element of this class.
fn said_of(class: &str) -> Vec<String> {
    let text = format!("Source(1) -> e :: {class} -> Sink;");
    let classes = ALL.iter().copied().chain([&SOURCE, &SINK]);
    let mut router = common::router(&text, classes, &[], |_| ());
    router.run();
    router.report().unaccounted(router.shared()).iter().map(ToString::to_string).collect()
}

#[test]
fn faults_are_found_and_nothing_else() {
    for class in ["Passes", "Honest", "Copies", "Eats"] {
        assert_eq!(said_of(class), Vec::<String>::new(), "{class}");
    }
    let wrong = [
        ("Loses", "3 packets lost without a reason"),
        ("Makes", "2 packets sent that never came"),
        ("LosesCopies", "1 packet lost without a reason"),
        ("EatsMore", "1 packet sent that never came"),
        ("Hides", "1 packet lost without a reason"),
        ("Boasts", "1 packet sent that never came"),
    ];
    for (class, what) in wrong {
        assert_eq!(said_of(class), [format!("{what} at e ({class})")]);
    }
}

#[test]
fn frames_in_use_are_explained() {
    let of = |class: &str, frames: &[(usize, bool)]| {
        let text = format!("Source(1) -> e :: {class} -> Sink;");
        let mut router = common::router(&text, ALL.iter().copied().chain([&SOURCE, &SINK]), &[], |_| ());
        router.run();
        let (report, shared) = (router.report(), router.shared());
        for (frames, good) in frames {
            assert_eq!(report.explains(shared, *frames), *good, "{frames} frames for {class}");
        }
    };
    of("Honest", &[(1, false), (2, true), (3, false)]);
    of("Copies", &[(0, true), (1, false)]);
}
