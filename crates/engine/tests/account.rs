// SPDX-License-Identifier: MIT OR Apache-2.0
//! The account of packets finds elements that lose some, send some that never came, or say wrongly what they hold.

mod common;
#[path = "common/source.rs"]
mod source;

use junctor_engine::args::Args;
use junctor_engine::{Class, Cx, Element, PacketHolder, Reason};
use packet::{Batch, Packet};

use source::SOURCE;

/// What an element does with a batch: packets that it keeps, drops, loses or ends, and makes; it sends on what is left.
#[derive(Clone, Copy, Default)]
struct Doings {
    keeps: usize,
    /// What it says that it keeps.
    says: usize,
    drops: usize,
    loses: usize,
    /// What it says that it ends.
    takes: usize,
    makes: usize,
    /// What it says that it makes.
    made: usize,
}

struct Doer(Doings, Vec<Packet>);

impl Element for Doer {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        let Doings { keeps, drops, loses, makes, .. } = self.0;
        self.1.extend(batch.drain(..keeps));
        cx.drop_batch(Reason::Filtered, batch.split_front(drops));
        drop(batch.split_front(loses));
        cx.took(self.0.takes);
        (0..makes).filter_map(|_| Packet::copy_of(b"more")).for_each(|packet| batch.push(packet));
        cx.made(self.0.made);
        cx.push(0, batch);
    }
}

impl PacketHolder for Doer {
    fn held(&self) -> usize {
        self.0.says
    }
}

struct Sink;

impl Element for Sink {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        cx.took(batch.len());
    }
}

static SINK: Class = Class::new("Sink", "1/0", || Box::new(Sink)).processing("h/h");

/// Gives 3 packets of each batch to the element that TO names, which may send them.
struct Gives(Option<String>);

impl Element for Gives {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.0 = args.keyword_opt("TO");
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        drop(batch.split_front(3));
        cx.push(0, batch);
    }
}

impl PacketHolder for Gives {
    fn held_by(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

static GIVES: Class =
    Class::new("Gives", "1/1", || Box::new(Gives(None))).packet_holder::<Gives>().processing("h/h");

macro_rules! doers {
    ($($class:ident $name:literal $doings:expr;)*) => {
        $(static $class: Class = Class::new($name, "1/1", || Box::new(Doer($doings, Vec::new()))).packet_holder::<Doer>().processing("h/h");)*
        static ALL: &[&Class] = &[$(&$class),*];
    };
}

const NONE: Doings = Doings { keeps: 0, says: 0, drops: 0, loses: 0, takes: 0, makes: 0, made: 0 };
const HONEST: Doings = Doings { keeps: 2, says: 2, drops: 1, ..NONE };

doers! {
    PASSES "Passes" NONE;
    HONESTLY "Honest" HONEST;
    LOSES "Loses" Doings { loses: 3, ..HONEST };
    SENDS "Sends" Doings { makes: 3, ..NONE };
    MAKES "Makes" Doings { makes: 2, ..NONE };
    COPIES "Copies" Doings { makes: 2, made: 2, ..NONE };
    DOUBLES "Doubles" Doings { makes: 7, made: 2, ..NONE };
    LOSES_COPIES "LosesCopies" Doings { loses: 1, makes: 1, made: 2, ..NONE };
    EATS "Eats" Doings { loses: 3, takes: 3, ..NONE };
    EATS_SECRETLY "EatsSecretly" Doings { loses: 3, takes: 1, ..NONE };
    EATS_MORE "EatsMore" Doings { takes: 1, ..NONE };
    FRAGMENTS "Fragments" Doings { loses: 1, takes: 1, makes: 4, made: 4, ..NONE };
    HIDES "Hides" Doings { keeps: 2, says: 1, ..NONE };
    BOASTS "Boasts" Doings { says: 1, ..NONE };
}

/// What is said of a configuration's elements.
fn said_of(text: &str) -> Vec<String> {
    let classes = ALL.iter().copied().chain([&SOURCE, &SINK, &GIVES]);
    let mut router = common::router(text, classes, &[], |_| ());
    router.run();
    router.report().unaccounted(router.shared()).iter().map(ToString::to_string).collect()
}

#[test]
fn faults_are_found_and_nothing_else() {
    let of = |class: &str| said_of(&format!("Source(1) -> e :: {class} -> Sink;"));
    for class in ["Passes", "Honest", "Copies", "Eats", "Fragments"] {
        assert_eq!(of(class), Vec::<String>::new(), "{class}");
    }
    let wrong = [
        ("Loses", "3 packets lost without a reason"),
        ("Makes", "2 packets sent that neither came nor were made"),
        ("Doubles", "5 packets sent that neither came nor were made"),
        ("LosesCopies", "2 packets lost without a reason"),
        ("EatsSecretly", "2 packets lost without a reason"),
        ("EatsMore", "1 packet sent that neither came nor were made"),
        ("Hides", "1 packet lost without a reason"),
        ("Boasts", "1 packet sent that neither came nor were made"),
    ];
    for (class, what) in wrong {
        assert_eq!(of(class), [format!("{what} at e ({class})")]);
    }
}

#[test]
fn elements_that_share_what_waits_have_one_account() {
    let of = |to: &str| said_of(&format!("Source(1) -> g :: Gives({to}) -> s :: Sends -> Sink;"));
    assert_eq!(of("TO s"), Vec::<String>::new());
    let apart = [
        "3 packets lost without a reason at g (Gives)",
        "3 packets sent that neither came nor were made at s (Sends)",
    ];
    assert_eq!(of(""), apart);
}

#[test]
fn frames_in_use_are_explained() {
    let of = |class: &str, frames: &[(usize, bool)]| {
        let text = format!("Source(1) -> e :: {class} -> Sink;");
        let mut router = common::router(&text, ALL.iter().copied().chain([&SOURCE, &SINK]), &[], |_| ());
        router.run();
        let report = router.report();
        for (frames, good) in frames {
            assert_eq!(report.explains(*frames), *good, "{frames} frames for {class}");
        }
    };
    of("Honest", &[(1, false), (2, true), (3, false)]);
    of("Copies", &[(0, true), (1, false)]);
}
