// SPDX-License-Identifier: MIT OR Apache-2.0
//! Only a few packets can be followed at a time: a trace that gets no more of them says so, and ends.

use std::io::{BufRead as _, BufReader, Read as _};
use std::time::{Duration, Instant};

use crate::router::{Running, SOURCE};

/// Keeps all that comes.
fn keeper() -> Running {
    let text = format!("{SOURCE} -> q :: Queue(1000000) -> Unqueue(ACTIVE false) -> Discard;");
    Running::start(&text, &["-j", "1"])
}

#[test]
fn a_trace_ends_when_all_that_can_be_followed_stand_still() {
    let router = keeper();
    let (out, why, status) = router.ask(&["trace"]);
    assert_eq!((status, out.matches("has not ended: held by q").count()), (0, 7), "{out}{why}");
    for words in ["(7 by this trace, held by q)", "7 of 10 packets followed (nothing moves any more)"] {
        assert!(why.contains(words), "{words}: {why}");
    }
    assert!(why.contains("packets that matched were passed over"), "{why}");
    // Packets of before that are still inside take their part away.
    assert_eq!(router.ask(&["trace", "--count", "3"]).2, 0);
    let (_, why, status) = router.ask(&["trace"]);
    let words = "(4 by this trace, held by q; 3 that an earlier one has left in the router)";
    assert!(status == 0 && why.contains(words) && why.contains("4 of 10 packets"), "{why}");
}

#[test]
fn a_packet_that_stays_inside_takes_only_its_own_number() {
    // Two queues keep what comes; one of them is emptied, and what is left of the packets in it is what their frames are used for again.
    let text = format!(
        "{SOURCE} -> rr :: RoundRobinSwitch; rr[0] -> Queue(1000000) -> Unqueue(ACTIVE false) -> Discard; \
         rr[1] -> Queue(1000000) -> u :: Unqueue(ACTIVE false) -> Discard;"
    );
    let router = Running::start(&text, &["-j", "1"]);
    let (out, why, status) = router.ask(&["trace", "--count", "6"]);
    assert_eq!((status, out.matches("has not ended: held by").count()), (0, 6), "{out}{why}");
    assert_eq!(router.ask(&["ctl", "u.active", "true"]).2, 0);
    // The three in the queue that is emptied go, of which nobody sees anything. Their numbers are free when their frames are used again.
    let (give_up, mut stay) = (Instant::now() + Duration::from_secs(60), 3);
    loop {
        let (out, why, status) = router.ask(&["trace", "--count", "40"]);
        assert_eq!(status, 0, "{why}");
        // Of these a half stays, and takes the numbers.
        if why.contains(&format!("held by Queue@3; {stay} that an earlier one has left in the router")) {
            break;
        }
        stay += out.matches("has not ended: held by Queue@3").count();
        assert!(Instant::now() < give_up, "{stay}: {why}");
    }
}

#[test]
fn a_trace_that_gets_no_packet_says_who_has_them_all() {
    let router = keeper();
    let mut first = router.spawn(&["trace", "--time", "600s"]);
    let mut said = BufReader::new(first.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("7 by this trace, held by q"), "{line}");
    let (out, why, status) = router.ask(&["trace"]);
    assert_eq!((status, out.as_str()), (1, ""), "{why}");
    let words = "none of these could be followed: 7 by another 'junctor trace' or a recording that waits";
    assert!(why.contains("0 of 10 packets followed") && why.contains(words), "{why}");
    assert!(!why.contains("no packet came"), "{why}");
    let pid = rustix::process::Pid::from_child(&first);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut out = String::new();
    first.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert!(first.wait().unwrap().success());
    assert_eq!(out.matches("has not ended: held by q").count(), 7, "{out}");
}
