// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rest of a handler's call is done by the thread that called, and workers forward meanwhile.

mod common;
#[path = "common/ends.rs"]
mod ends;
#[path = "common/source.rs"]
mod source;

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use junctor_engine::args::Args;
use junctor_engine::{Class, Cx, Element, Handler, HandlerError, LongHandlers, OwnHandlers, Rest};
use packet::Batch;

use common::router;
use ends::Ends;
use source::SOURCE;

/// How long the test waits for what must come.
const SURELY: Duration = Duration::from_secs(60);

/// The channel ends that rests hold: a rest reports that it has started, and waits for leave to end.
static ENDS: Mutex<Option<(Sender<ThreadId>, Receiver<()>)>> = Mutex::new(None);

/// Counts batches. Its table takes as long as the test wants.
#[derive(Default)]
struct Slow(u64);

fn rest(answer: String) -> Rest<String> {
    Box::new(move || {
        let (begun, leave) = ENDS.lock().expect("whole").take().expect("the test's");
        begun.send(std::thread::current().id()).expect("the test waits");
        leave.recv_timeout(SURELY).expect("the test lets it go on");
        Ok(answer)
    })
}

impl Element for Slow {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn push(&mut self, _: &mut Cx<'_>, _: usize, _: Batch) {
        self.0 += 1;
    }
}

impl LongHandlers for Slow {
    fn read_apart(&mut self, _: &mut Cx<'_>, name: &str, param: &str) -> Option<Rest<String>> {
        (name == "table").then(|| rest(format!("the table of {param}")))
    }

    fn write_apart(&mut self, _: &mut Cx<'_>, name: &str, value: &str) -> Option<Rest<Option<String>>> {
        let rest = (name == "load").then(|| rest(value.to_owned()))?;
        Some(Box::new(move || match rest()?.as_str() {
            "bad" => Err(HandlerError::failed("it is bad")),
            value => Ok(Some(format!("loaded {value}"))),
        }))
    }
}

impl OwnHandlers for Slow {
    fn read(&mut self, _: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        if name == "count" { Ok(self.0.to_string()) } else { Err(HandlerError::unknown(name)) }
    }
}

static SLOW: Class = Class::new("Slow", "1/0", || Box::<Slow>::default())
    .long_handlers::<Slow>()
    .own_handlers::<Slow>()
    .processing("h/h")
    .handlers(&[Handler::read("count"), Handler::read("table"), Handler::write("load")]);

#[test]
fn workers_forward_while_a_handler_takes_long() {
    let (print, printed) = channel();
    let print = Mutex::new(print);
    let mut router = router("Source -> slow :: Slow;", [&SOURCE, &SLOW], &[], move |text| {
        let _ = print.lock().expect("whole").send(text.to_owned());
    });
    let control = router.control();
    std::thread::scope(|scope| {
        let _ends = Ends(&control);
        scope.spawn(|| router.run());
        let count = || control.read("slow.count", "").expect("a count").parse::<u64>().expect("a number");
        // Runs a call until its rest has started; forwards; lets it end.
        let check = |call: &(dyn Fn() -> Result<String, HandlerError> + Sync)| {
            let (begun, begins) = channel();
            let (leave, left) = channel();
            *ENDS.lock().expect("whole") = Some((begun, left));
            std::thread::scope(|scope| {
                let caller = scope.spawn(call);
                let rest_on = begins.recv_timeout(SURELY).expect("a rest");
                assert_eq!(rest_on, caller.thread().id(), "the rest is the caller's");
                let (begin, before) = (Instant::now(), count());
                while count() < before + 100 && begin.elapsed() < SURELY {}
                assert!(count() >= before + 100, "the router forwards");
                leave.send(()).expect("it waits");
                caller.join().expect("no panic")
            })
        };
        assert_eq!(check(&|| control.read("slow.table", "x")), Ok("the table of x".into()));
        assert_eq!(check(&|| control.write("slow.load", "it")), Ok(String::new()));
        assert_eq!(printed.recv_timeout(SURELY).as_deref(), Ok("loaded it"));
        assert_eq!(check(&|| control.write("slow.load", "bad")), Err(HandlerError::failed("it is bad")));
    });
}
