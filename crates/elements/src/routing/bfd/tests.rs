// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two elements that watch each other, on a virtual clock.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use element::Reason;
use element::args::FromArg as _;
use packet::Packet;

use super::frame::{self, Path};
use super::{Down, Follow, Liveness, Neighbour};
use crate::testing::{Rig, Run};

/// Two routers on a link that `cut` can cut. Router `a` has two ways to 10.9.0.0/16.
fn pair(options: &str, script: &str, seconds: f64) -> Run {
    linked(0, options, script, seconds)
}

/// The same; with 1 for `cut`, the link is cut from the beginning.
fn linked(cut: u8, options: &str, script: &str, seconds: f64) -> Run {
    let text = format!(
        "a :: BFD(LINK x 0, LINK z 1, SESSION 10.0.0.2 10.0.0.1 x {options}, TABLE rt); \
         b :: BFD(LINK y, SESSION 10.0.0.1 10.0.0.2 y {options}); \
         a[0] -> to_b :: Counter -> cut :: Switch({cut}) -> b -> to_a :: Counter -> a; cut[1] -> Discard; \
         Idle -> [1]a; a[1] -> Discard; \
         i :: TestIn -> rt :: StaticIPLookup(10.9.0.0/16 10.0.0.2 0 1 | 10.0.1.2 1 1); \
         rt[0] -> o0 :: TestOut; rt[1] -> o1 :: TestOut; s :: Script({script});"
    );
    Rig::text(&text).ready().run_for(Duration::from_secs_f64(seconds))
}

fn states(run: &mut Run) -> [String; 2] {
    ["a", "b"].map(|name| {
        let line = run.read(&format!("{name}.sessions"));
        line.split('\t').nth(2).unwrap_or_default().to_owned()
    })
}

#[test]
fn a_session_comes_up_and_keeps_its_intervals() {
    let mut run = pair("TX 10ms RX 10ms", "wait 5, write to_b.reset, write to_a.reset", 6.0);
    assert_eq!(states(&mut run), ["up", "up"]);
    for counter in ["to_a.count", "to_b.count"] {
        let sent: u32 = run.read(counter).parse().unwrap();
        assert!((100..=134).contains(&sent), "75 to 100 percent of 10 ms: {sent} packets in a second");
    }
    assert_eq!(run.drops("b").iter().map(|(why, _)| *why).collect::<Vec<_>>(), [Reason::Discarded]);
}

#[test]
fn until_it_is_up_it_sends_once_a_second() {
    let mut run = linked(1, "TX 10ms RX 10ms", "wait 1", 10.0);
    assert_eq!(states(&mut run), ["init", "down"]);
    let sent: u32 = run.read("to_b.count").parse().unwrap();
    assert!((10..=14).contains(&sent), "{sent} packets in 10 s");
}

/// What a session's end does to the tables.
struct Seen(std::sync::Mutex<Vec<Down>>);

impl Follow for Seen {
    fn follow(&self, down: &Down) -> Result<(), String> {
        self.0.lock().unwrap().push(down.clone());
        Ok(())
    }
}

/// The outputs by which packets of some flows leave.
fn ways(run: Run, port: u16) -> (Run, [usize; 2]) {
    let dst: IpAddr = "10.9.0.1".parse().unwrap();
    let packets = (0..64).map(|flow| {
        let path = Path { src: "10.8.0.1".parse().unwrap(), dst, ports: (port + flow, 9), ttl: 9 };
        frame::make(path, dst, b"x").expect("memory")
    });
    run.give("i", packets.collect::<Vec<Packet>>());
    let run = run.run_for(Duration::from_micros(100));
    let counts = ["o0", "o1"].map(|out| run.out(out).len());
    (run, counts)
}

#[test]
fn a_lost_neighbour_leaves_its_groups_and_returns() {
    let mut run = pair("TX 10ms RX 10ms", "wait 5, write cut.switch 1", 5.05);
    assert_eq!(states(&mut run), ["down", "down"]);
    let liveness = run.provided::<Liveness>("a").expect("provided");
    assert_eq!(liveness.carry(), Ok(true));
    let (run, counts) = ways(run, 100);
    assert_eq!(counts, [0, 64], "the dead hop takes nothing");
    let follower: Arc<Seen> = Arc::new(Seen(std::sync::Mutex::default()));
    let followed: Arc<dyn Follow> = follower.clone();
    liveness.add(&followed);
    assert_eq!((liveness.carry(), liveness.carry()), (Ok(true), Ok(false)));
    liveness.set(Neighbour { link: "x".into(), address: "10.0.0.2".parse().unwrap() }, false);
    assert_eq!(liveness.carry(), Ok(true));
    let sizes: Vec<usize> = follower.0.lock().unwrap().iter().map(Down::len).collect();
    assert_eq!(sizes, [1, 0]);
    let (_, counts) = ways(run, 100);
    assert!(counts[0] > 10 && counts[0] + counts[1] == 64, "the hop is back: {counts:?}");
}

#[test]
fn an_administrative_end_keeps_the_hop() {
    let script = "wait 5, write b.set 10.0.0.1 10.0.0.2 y TX 10ms RX 10ms DOWN";
    let mut run = pair("TX 10ms RX 10ms", script, 6.0);
    assert_eq!(states(&mut run), ["down", "shutdown"]);
    let liveness = run.provided::<Liveness>("a").expect("provided");
    liveness.carry().unwrap();
    let (_, counts) = ways(run, 100);
    assert!(counts[0] > 10, "{counts:?}");
}

#[test]
fn slower_intervals_are_negotiated() {
    let script = "wait 5, write a.set 10.0.0.2 10.0.0.1 x TX 100ms RX 100ms, wait 2, \
                  write to_b.reset, write to_a.reset";
    let mut run = pair("TX 10ms RX 10ms", script, 17.0);
    assert_eq!(states(&mut run), ["up", "up"]);
    for counter in ["to_a.count", "to_b.count"] {
        let sent: u32 = run.read(counter).parse().unwrap();
        assert!((100..=134).contains(&sent), "{counter}: {sent} packets in 10 s");
    }
    assert!(run.read("a.json").contains("\"session-down\":0"), "it stayed up");
}

#[test]
fn sessions_come_and_go_by_handlers() {
    let mut run = pair("TX 10ms RX 10ms", "wait 5", 5.0);
    run.write("a.add", "10.0.1.2 10.0.1.1 z MULT 1").expect("room");
    let again = run.write("a.add", "10.0.1.2 10.0.1.1 z").unwrap_err().to_string();
    assert!(again.contains("has a session already"), "{again}");
    assert_eq!(run.read("a.sessions").lines().count(), 2);
    let check = |run: &mut Run, handler: &str, text: &str, want: &str| {
        let why = run.write(handler, text).unwrap_err().to_string();
        assert!(why.contains(want), "{why}");
    };
    check(&mut run, "a.add", "10.0.1.2 10.0.1.1 w", "there is no LINK w");
    check(&mut run, "a.add", "fe80::2 fe80::1 z", "needs outputs for IPv6");
    check(&mut run, "b.add", "10.7.0.1 10.0.0.1 -", "needs routes: name TABLE");
    check(&mut run, "a.add", "10.0.1.2", "expected a session as");
    check(&mut run, "a.remove", "10.0.1.9 z", "there is no session");
    run.write("a.remove", "10.0.1.2 z").expect("it is there");
    assert_eq!(run.read("a.sessions").lines().count(), 1);
    let json = run.read("a.json");
    assert!(json.starts_with("[{\"multihop\":false,\"peer\":\"10.0.0.2\",\"local\":\"10.0.0.1\""), "{json}");
    assert!(json.contains("\"status\":\"up\"") && json.contains("\"detection-time\":30"), "{json}");
}

#[test]
fn each_fault_has_a_name() {
    let path = |ttl| Path {
        src: "10.0.0.2".parse().unwrap(),
        dst: "10.0.0.1".parse().unwrap(),
        ports: (49152, 3784),
        ttl,
    };
    let gateway: IpAddr = "10.0.0.1".parse().unwrap();
    let mut good = [0u8; 24];
    good[..4].copy_from_slice(&[0x20, 0x40, 3, 24]);
    good[7] = 1;
    let with = |at: usize, value: u8| {
        let mut bytes = good;
        bytes[at] = value;
        frame::make(path(255), gateway, &bytes).unwrap()
    };
    let packets = vec![
        frame::make(path(255), gateway, &good).unwrap(),
        frame::make(path(254), gateway, &good).unwrap(),
        frame::make(path(255), gateway, &good[..20]).unwrap(),
        with(0, 0x40),
        with(3, 23),
        with(3, 25),
        with(2, 0),
        with(1, 0x41),
        with(7, 0),
        with(1, 0xc0),
        with(11, 9),
        with(1, 0x44),
        Packet::copy_of(b"\x45 no packet").unwrap(),
    ];
    let mut run = Rig::text(
        "i :: TestIn -> e :: BFD(LINK x, SESSION 10.0.0.2 10.0.0.1 x PASSIVE, SESSION 10.0.0.3 10.0.0.1 x DOWN) -> o :: TestOut;              s :: Script(wait 0.1, stop);",
    )
    .packets(packets)
    .run();
    let text = run.read("e.discards");
    let counts: Vec<&str> = text.lines().filter(|line| !line.ends_with(" 0")).collect();
    let want = [
        "bfd-truncated 1",
        "bfd-version 1",
        "bfd-length 2",
        "bfd-length-beyond-payload 1",
        "bfd-multiplier-zero 1",
        "bfd-multipoint 1",
        "bfd-sender-discriminator-zero 1",
        "bfd-unknown-discriminator 1",
        "bfd-missing-discriminator 1",
        "bfd-ttl 1",
    ];
    assert_eq!(counts, want);
    let want = [
        (Reason::Discarded, 1),
        (Reason::TooShort, 2),
        (Reason::BadVersion, 1),
        (Reason::BadLength, 3),
        (Reason::BadHopLimit, 1),
        (Reason::BadBfd, 3),
        (Reason::NoBfdSession, 2),
    ];
    let mut found = run.drops("e");
    found.sort();
    let mut want = want.to_vec();
    want.sort();
    assert_eq!(found, want);
}

#[test]
fn a_swap_keeps_sessions_up() {
    let text = |mult: u32, more: &str| {
        format!(
            "a :: BFD(LINK x, SESSION 10.0.0.2 10.0.0.1 x TX 10ms RX 10ms MULT {mult}); \
             b :: BFD(LINK y, SESSION 10.0.0.1 10.0.0.2 y TX 10ms RX 10ms {more}); \
             a -> b -> a; s :: Script(wait 5, stop);"
        )
    };
    let mut run = Rig::text(&text(3, "")).run();
    assert_eq!(states(&mut run), ["up", "up"]);
    run.swap(&text(5, "")).unwrap();
    assert_eq!(states(&mut run), ["up", "up"], "before a packet has passed");
    let mut run = run.again();
    assert_eq!(states(&mut run), ["up", "up"]);
    let json = run.read("a.json");
    assert!(json.contains("\"detect-multiplier\":5") && json.contains("\"session-down\":0"), "{json}");
}

#[test]
fn over_several_hops_it_follows_the_routes() {
    let text = "a :: BFD(LINK x 0, SESSION 10.7.0.1 10.0.0.1 - TX 10ms RX 10ms, TABLE rt); \
        b :: BFD(LINK y 0, SESSION 10.0.0.1 10.7.0.1 - TX 10ms RX 10ms, TABLE rt); \
        a -> b -> a; Idle -> rt :: StaticIPLookup(10.7.0.0/16 10.0.0.9 0, 10.0.0.0/24 0) -> Discard; \
        s :: Script(wait 5, stop);";
    let mut run = Rig::text(text).run();
    assert_eq!(states(&mut run), ["up", "up"]);
}

#[test]
fn both_sides_need_the_secret() {
    for kind in ["password", "md5", "meticulous-md5", "sha1", "meticulous-sha1"] {
        let mut run = pair(&format!("TX 10ms RX 10ms AUTH {kind} 3 secret"), "wait 5", 6.0);
        assert_eq!(states(&mut run), ["up", "up"], "{kind}");
        let other = format!("wait 5, write b.set 10.0.0.1 10.0.0.2 y TX 10ms RX 10ms AUTH {kind} 3 other");
        let mut run = pair(&format!("TX 10ms RX 10ms AUTH {kind} 3 secret"), &other, 20.0);
        assert_eq!(states(&mut run), ["down", "down"], "{kind}");
        let discards = run.read("b.discards");
        assert!(
            discards.lines().any(|line| line.starts_with("bfd-authentication ") && !line.ends_with(" 0"))
        );
    }
    let without = "wait 5, write b.remove 10.0.0.1 y, write b.add 10.0.0.1 10.0.0.2 y TX 10ms RX 10ms";
    let mut run = pair("TX 10ms RX 10ms AUTH sha1 3 secret", without, 20.0);
    assert_eq!(states(&mut run), ["down", "down"]);
    assert!(run.read("a.json").contains("\"authentication\":\"sha1\""), "{}", run.read("a.json"));
}

#[test]
fn several_hops_in_a_vrf() {
    let session = |near: &str, far: &str, vrf: &str| format!("SESSION {near} {far} - TX 10ms RX 10ms {vrf}");
    let sessions =
        |near: &str, far: &str| format!("{}, {}", session(near, far, ""), session(near, far, "VRF red"));
    // The same addresses are used twice. Packets of red leave by the second link of each side; `cut` loses them.
    let text = format!(
        "a :: BFD(LINK x 0, LINK xr 1, {}, VRF red 1, TABLE rt); b :: BFD(LINK y 0, LINK yr 1, {}, VRF red 1, TABLE rt); \
         a[0] -> b; b[0] -> a; a[1] -> cut :: Switch(0) -> SetAnnoByte(VRF, 1) -> [1]b; cut[1] -> Discard; \
         b[1] -> SetAnnoByte(VRF, 1) -> [1]a; \
         Idle -> rt :: StaticIPLookup(VRF_ANNO VRF, 10.7.0.0/16 10.0.0.9 0, 10.0.0.0/24 0, \
             10.7.0.0/16 10.0.0.9 1 table 1, 10.0.0.0/24 1 table 1) -> Discard; rt[1] -> Discard; \
         s :: Script(wait 5, stop);",
        sessions("10.7.0.1", "10.0.0.1"),
        sessions("10.0.0.1", "10.7.0.1"),
    );
    let all = |run: &mut Run| -> Vec<String> {
        let text = ["a", "b"].map(|name| run.read(&format!("{name}.sessions"))).concat();
        text.lines().map(|line| line.split('\t').nth(2).unwrap_or_default().to_owned()).collect()
    };
    let mut run = Rig::text(&text).run();
    assert_eq!(all(&mut run), ["up"; 4]);
    let json = run.read("a.json");
    assert!(json.contains("\"vrf\":\"default\"") && json.contains("\"vrf\":\"red\""), "{json}");
    let mut run = Rig::text(&text.replace("wait 5", "wait 5, write cut.switch 1, wait 1")).run();
    // Side a still hears the other one.
    assert_eq!(all(&mut run), ["up", "init", "up", "down"], "{}", run.read("a.sessions"));
    run.write("a.remove", "10.7.0.1 10.0.0.1 -").expect("it is there");
    assert_eq!(all(&mut run), ["init", "up", "down"]);
    run.write("a.remove", "10.7.0.1 10.0.0.1 - VRF red").expect("it is there");
    let why = run.write("a.remove", "10.7.0.1 10.0.0.1 - VRF blue").unwrap_err().to_string();
    assert!(why.contains("there is no VRF blue"), "{why}");
}

#[test]
fn arguments() {
    let check = |args: &str, want: &str| {
        let text = format!("Idle -> e :: BFD({args}) -> Discard;");
        let errors = Rig::text(&text).errors();
        assert!(errors.iter().any(|e| e.contains(want)), "{errors:?}");
    };
    check("", "name the links");
    check("LINK a, LINK b", "2 links need 2 inputs and 2 outputs, or 4 outputs with IPv6, not 1 and 1");
    check("LINK a, SESSION 10.0.0.2 10.0.0.1 b", "there is no LINK b");
    check("LINK a, SESSION ::2 ::1 a", "needs outputs for IPv6");
    check("LINK a, SESSION 10.0.0.2 10.0.0.1 a, SESSION 10.0.0.2 10.0.0.3 a", "there are two sessions");
    check("LINK a, TABLE rt", "LINK a needs the output");
    check("LINK a 0, TABLE rt", "TABLE: 'rt' is not an element");
    check("LINK a b", "LINK");
    check("LINK a 0, VRF red 0", "the name of a VRF and the number of its table");
    check("LINK a 0, VRF red 1, VRF blue 1", "VRF blue 1: the name or the table is given twice");
    check("LINK a 0, TABLE rt, SESSION 10.0.0.2 10.0.0.1 - VRF red", "there is no VRF red");
}

/// Two routers, of which one sends echo packets. The other one's forwarding plane sends them back; `cut` loses them.
fn echoing(options: &str, script: &str, seconds: f64) -> Run {
    let text = format!(
        "a :: BFD(LINK x, SESSION 10.0.0.2 10.0.0.1 x {options}); \
         b :: BFD(LINK y, SESSION 10.0.0.1 10.0.0.2 y TX 10ms RX 10ms ECHO 20ms); \
         a -> c :: IPClassifier(dst udp port 3785, -); c[0] -> echoes :: Counter -> cut :: Switch(0) -> DecIPTTL -> a; c[1] -> to_b :: Counter -> b; \
         cut[1] -> Discard; b -> to_a :: Counter -> a; s :: Script({script});"
    );
    Rig::text(&text).ready().run_for(Duration::from_secs_f64(seconds))
}

#[test]
fn echo_packets_return_and_control_packets_are_few() {
    let script = "wait 8, write to_b.reset, write to_a.reset, write echoes.reset";
    let mut run = echoing("TX 10ms RX 10ms ECHO_TX 10ms", script, 18.0);
    assert_eq!(states(&mut run), ["up", "up"]);
    let count = |run: &mut Run, name: &str| run.read(&format!("{name}.count")).parse::<u32>().unwrap();
    // The neighbour allows one in 20 ms, of which 75 to 100 percent pass between two.
    let echoes = count(&mut run, "echoes");
    assert!((500..=667).contains(&echoes), "{echoes} echo packets in 10 s");
    let back = count(&mut run, "to_a");
    assert!((10..=15).contains(&back), "{back} packets: control packets once a second");
    // b sends none, so it wants control packets as often as before.
    assert!((1000..=1340).contains(&count(&mut run, "to_b")));
    let json = run.read("a.json");
    assert!(
        json.contains("\"session-down\":0") && json.contains("\"actual-echo-transmit-interval\":20,"),
        "{json}"
    );
    assert!(run.read("b.json").contains("\"echo-packet-output\":0,"));
}

#[test]
fn echo_packets_that_come_too_fast_are_dropped() {
    let text = "a :: BFD(LINK x, SESSION 10.0.0.2 10.0.0.1 x TX 10ms RX 10ms); \
         b :: BFD(LINK y, SESSION 10.0.0.1 10.0.0.2 y TX 10ms RX 10ms MULT 3 ECHO 20ms); \
         i :: TestIn -> b; a -> b -> c :: IPClassifier(dst udp port 3785, -); c[0] -> echoes :: TestOut; c[1] -> a;";
    let run = Rig::text(text).ready().run_for(Duration::from_secs(5));
    let (src, dst) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
    let path = Path { src, dst, ports: (3785, 3785), ttl: 255 };
    let echo = || frame::make(path, dst, &[7; 32]).expect("memory");
    let check = |run: Run, came: usize, returned: usize, too_many: Option<u64>| {
        run.give("i", (0..came).map(|_| echo()).collect::<Vec<Packet>>());
        let run = run.run_for(Duration::from_millis(1));
        let drops = run.drops("b");
        let counted = drops.iter().find(|(why, _)| *why == Reason::RateExceeded).map(|(_, count)| *count);
        assert_eq!((run.out("echoes").len(), counted), (returned, too_many));
        run
    };
    // Those of three intervals may come together, at three quarters of the interval.
    let run = check(run, 5, 5, None);
    let run = check(run, 15, 0, Some(15));
    let run = run.run_for(Duration::from_millis(20));
    let mut run = check(run, 1, 1, Some(15));
    assert!(run.read("b.json").contains("\"echo-packet-reflected\":6,"), "{}", run.read("b.json"));
}

#[test]
fn other_intervals_leave_authentication_alone() {
    let script = "wait 5, write a.set 10.0.0.2 10.0.0.1 x TX 20ms RX 20ms";
    let mut run = pair("TX 10ms RX 10ms AUTH sha1 7 secret", script, 10.0);
    assert_eq!(states(&mut run), ["up", "up"]);
    let json = run.read("a.json");
    assert!(json.contains("\"session-down\":0") && json.contains("\"authentication\":\"sha1\""), "{json}");
}

#[test]
fn authentication_is_taken_off() {
    let set = |name: &str, session: &str| format!("write {name}.set {session} TX 10ms RX 10ms AUTH none");
    let (a, b) = (set("a", "10.0.0.2 10.0.0.1 x"), set("b", "10.0.0.1 10.0.0.2 y"));
    let mut run = pair("TX 10ms RX 10ms AUTH sha1 7 secret", &format!("wait 5, {a}"), 10.0);
    let is_up = |run: &mut Run| states(run).map(|state| state == "up");
    assert_eq!(is_up(&mut run), [false, false], "only one side has none");
    let mut run = pair("TX 10ms RX 10ms AUTH sha1 7 secret", &format!("wait 5, {a}, {b}"), 15.0);
    assert_eq!(is_up(&mut run), [true, true]);
    assert!(run.read("a.json").contains("\"authentication\":\"none\""), "{}", run.read("a.json"));
    // Intervals that change later bring no authentication back.
    let again = format!("wait 5, {a}, {b}, wait 5, write a.set 10.0.0.2 10.0.0.1 x TX 20ms RX 20ms");
    let mut run = pair("TX 10ms RX 10ms AUTH sha1 7 secret", &again, 20.0);
    assert_eq!(is_up(&mut run), [true, true]);
}

#[test]
fn handlers_show_no_secrets() {
    let mut run = pair("TX 10ms RX 10ms AUTH sha1 7 hush", "wait 1", 5.0);
    assert_eq!(states(&mut run), ["up", "up"]);
    let shown = "SESSION 10.0.0.2 10.0.0.1 x TX 10ms RX 10ms AUTH sha1 7 ***";
    for handler in ["a.config", "config", "flatconfig"] {
        let text = run.read(handler);
        assert!(text.contains(shown) && !text.contains("hush"), "{handler}: {text}");
    }
    for handler in ["a.sessions", "a.json", "a.handlers", "list"] {
        assert!(!run.read(handler).contains("hush"), "{handler}");
    }
}

#[test]
fn errors_keep_secrets() {
    let shown = super::Wanted::shown("10.0.0.2 10.0.0.1 x TX 5 auth sha1 7 secret MULT 3");
    assert_eq!(shown, "10.0.0.2 10.0.0.1 x TX 5 auth sha1 *** *** *** ***");
}

#[test]
fn lost_echoes_end_the_session() {
    let mut run = echoing("TX 10ms RX 10ms ECHO_TX 20ms", "wait 8, write cut.switch 1", 8.07);
    assert!(run.read("a.json").contains("\"diagnostic\":\"echo failed\""), "{}", run.read("a.json"));
    assert_eq!(states(&mut run), ["down", "init"], "it is held down");
    let json = |run: &mut Run, text: &str| {
        assert!(run.read("a.json").contains(text), "{text}: {}", run.read("a.json"))
    };
    let mut run = echoing("TX 10ms RX 10ms ECHO_TX 20ms", "wait 8, write cut.switch 1, wait 8", 16.0);
    json(&mut run, "\"session-down\":3");
    let again = "wait 8, write cut.switch 1, wait 0.5, write cut.switch 0, wait 5";
    let mut run = echoing("TX 10ms RX 10ms ECHO_TX 20ms", again, 13.0);
    assert_eq!(states(&mut run), ["up", "up"]);
    json(&mut run, "\"session-down\":1");
    let mut run = echoing("TX 10ms RX 10ms ECHO_TX 20ms", "wait 8, write cut.switch 1", 8.03);
    assert_eq!(states(&mut run), ["up", "up"], "three may be missing");
    // Without echo packets it would not notice.
    let mut run = echoing("TX 10ms RX 10ms", "wait 8, write cut.switch 1", 10.0);
    assert_eq!(states(&mut run), ["up", "up"]);
    // It is switched on and off while the session is up.
    let script = "wait 8, write a.set 10.0.0.2 10.0.0.1 x TX 10ms RX 10ms ECHO_TX 20ms, wait 2, \
                  write a.set 10.0.0.2 10.0.0.1 x TX 10ms RX 10ms, wait 2, write cut.switch 1";
    let mut run = echoing("TX 10ms RX 10ms", script, 15.0);
    assert_eq!(states(&mut run), ["up", "up"]);
    let json = run.read("a.json");
    assert!(json.contains("\"session-down\":0") && json.contains("\"detection-time\":30,"), "{json}");
}
