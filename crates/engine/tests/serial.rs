// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements of which there is one for all workers: who has one may wait for a worker that waits for it.

mod common;
#[path = "common/ends.rs"]
mod ends;
#[path = "common/source.rs"]
mod source;

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use junctor_engine::args::Args;
use junctor_engine::{Class, Cx, Element, Handler, HandlerError, OwnHandlers};
use packet::Batch;

use common::router;
use ends::Ends;
use source::SOURCE;

/// How long the test waits for what must come.
const SURELY: Duration = Duration::from_secs(60);
/// Calls that must be answered.
const CALLS: u64 = 200;

/// Calls that were answered, and those that were not.
static ANSWERED: AtomicU64 = AtomicU64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);

/// With each packet it asks both sources, wherever they are, with its lock held.
#[derive(Default)]
struct Asker;

impl Element for Asker {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, _: Batch) {
        for source in ["one.where", "two.where"] {
            match cx.read_handler(source, "") {
                Ok(answer) if answer == "here" => ANSWERED.fetch_add(1, SeqCst),
                _ if cx.is_stopped() => 0,
                _ => FAILED.fetch_add(1, SeqCst),
            };
        }
    }
}

impl OwnHandlers for Asker {
    fn read(&mut self, _: &mut Cx<'_>, _: &str, _: &str) -> Result<String, HandlerError> {
        Ok(ANSWERED.load(SeqCst).to_string())
    }
}

static ASKER: Class = Class::new("Asker", "-/0", || Box::<Asker>::default())
    .own_handlers::<Asker>()
    .processing("h/h")
    .serial("who has it asks others")
    .handlers(&[Handler::read("count")]);

/// Each of two workers comes to the element with its packets, which calls handlers on both. Were a worker to sleep until the
/// element is free, the other one would wait for its answer for ever.
#[test]
fn who_waits_for_an_element_answers_calls_meanwhile() {
    let text = "one :: Source -> a :: Asker; two :: Source -> [1]a;";
    let mut router = router(text, [&SOURCE, &ASKER], &[], |_| ());
    let control = router.control();
    std::thread::scope(|scope| {
        let ends = Ends(&control);
        scope.spawn(|| router.run());
        let (begin, mut asked) = (Instant::now(), 0);
        // Others call it, too, whichever worker has it.
        while (ANSWERED.load(SeqCst) < CALLS || asked == 0) && begin.elapsed() < SURELY {
            // It says that it is busy if its worker is in it this moment.
            asked += u64::from(control.read("a.count", "").is_ok());
        }
        drop(ends);
        assert!(ANSWERED.load(SeqCst) >= CALLS, "{ANSWERED:?} calls were answered");
        assert!(asked > 0, "the element itself answers");
    });
    assert_eq!(FAILED.load(SeqCst), 0);
}
