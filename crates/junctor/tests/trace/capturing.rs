// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets are captured at ports of elements of routers that run (`junctor capture`); tshark and tcpdump read what was written.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::router::{Running, SOURCE};

/// What a program says about a capture file, line by line; `None` where the program is missing.
fn told(program: &str, args: &[&str], file: &Path) -> Option<Vec<String>> {
    let output = Command::new(program).args(["-n", "-r"]).arg(file).args(args).stderr(Stdio::null()).output();
    let Ok(output) = output else {
        eprintln!("skipped: there is no {program}");
        return None;
    };
    assert!(output.status.success(), "{program} does not read {}", file.display());
    Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// The fields of each packet, as tshark reads them.
pub fn fields(file: &Path, names: &[&str]) -> Option<Vec<Vec<String>>> {
    fields_of(file, &[], names)
}

/// The same with options of tshark. Several of a name stand between bars.
pub fn fields_of(file: &Path, options: &[&str], names: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut args = [options, &["-T", "fields", "-E", "occurrence=a", "-E", "aggregator=|"]].concat();
    names.iter().for_each(|name| args.extend(["-e", name]));
    let lines = told("tshark", &args, file)?;
    Some(lines.iter().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

#[test]
fn ports_are_interfaces_and_tshark_reads_them() {
    let text = format!(
        "{SOURCE} -> Strip(14) -> CheckIPHeader -> dec :: DecIPTTL -> q :: Queue -> Unqueue -> Discard; dec[1] -> Discard;"
    );
    for options in [&["-j", "1"][..], &["-j", "2"]] {
        let router = Running::start(&text, options);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("dec.pcapng");
        let path = file.to_str().unwrap();
        let (_, why, status) = router.ask(&["capture", "dec", "--count", "40", "-w", path]);
        assert!(status == 0 && why.contains("40 packets captured"), "{why}");
        let names = ["frame.interface_name", "ip.ttl", "ip.dst", "frame.len", "frame.time_epoch"];
        let Some(all) = fields(&file, &names) else { return };
        assert_eq!(all.len(), 40);
        for packet in &all {
            let ttl = if packet[0] == "[0]dec" { "64" } else { "63" };
            assert_eq!([&packet[1], &packet[2], &packet[3]], [ttl, "10.0.1.9", "30"], "{packet:?}");
            assert_eq!(packet[4].split('.').nth(1).map(str::len), Some(9), "nanoseconds: {packet:?}");
        }
        let ins = all.iter().filter(|p| p[0] == "[0]dec").count();
        let outs = all.iter().filter(|p| p[0] == "dec[0]").count();
        assert_eq!(ins + outs, 40);
        assert!(ins >= outs && outs > 0, "those that came in went out: {ins}, {outs}");
    }
}

#[test]
fn a_filter_takes_what_tcpdump_takes() {
    let other = |name: &str, data: &str| format!("{name} :: RatedSource(DATA \\<{data}>, RATE 1000) -> n;\n");
    let ether = "020000000001 020000000002 0800";
    let text = format!(
        "n :: Null -> c :: Counter -> Discard; {SOURCE} -> n;\n{}{}{}",
        other(
            "tcp",
            &format!(
                "{ether} 45000028 00020000 4006 0000 0a000002 0a000209 03e80050 00000001 00000000 5002ffff 00000000"
            )
        ),
        other(
            "arp",
            "ffffffffffff 020000000002 0806 0001 0800 06 04 0001 020000000002 0a000002 000000000000 0a000001"
        ),
        other(
            "vlan",
            "020000000001 020000000002 8100 0005 0800 4500001e 00010000 4011 65c5 0a000001 0a000109 03e80035 000ae40a aabb"
        ),
    );
    let router = Running::start(&text, &["-j", "1"]);
    let dir = tempfile::tempdir().unwrap();
    let all = dir.path().join("all.pcapng");
    let (_, why, status) =
        router.ask(&["capture", "c:0", "--direction", "in", "--count", "200", "-w", all.to_str().unwrap()]);
    assert_eq!(status, 0, "{why}");
    for filter in
        ["udp port 53", "tcp[tcpflags] & tcp-syn != 0", "arp", "vlan 5", "not ip", "host 10.0.2.9", "less 50"]
    {
        let some = dir.path().join("some.pcapng");
        let path = some.to_str().unwrap();
        let (_, why, status) =
            router.ask(&["capture", "c:0", "--direction", "in", "-f", filter, "--count", "30", "-w", path]);
        assert_eq!(status, 0, "{filter}: {why}");
        let Some(of_all) = told("tcpdump", &[filter], &all) else { return };
        let passed = told("tcpdump", &[filter], &some).expect("tcpdump was there");
        assert_eq!(passed.len(), 30, "{filter}: all that was captured passes");
        assert!(!of_all.is_empty() && of_all.len() < 200, "{filter}");
        // Each kind of packet that tcpdump takes of all is among them: one line for each kind, without its time.
        let kinds = |lines: &[String]| {
            let kinds: std::collections::BTreeSet<String> =
                lines.iter().filter_map(|l| l.split_once(' ').map(|(_, rest)| rest.to_owned())).collect();
            kinds
        };
        assert_eq!(kinds(&passed), kinds(&of_all), "{filter}");
    }
}

#[test]
fn a_port_is_named_as_in_the_configuration() {
    let router = Running::start(&format!("{SOURCE} -> n :: Null -> Discard;"), &["-j", "1"]);
    for (port, other) in [("[0]n", "n[0]"), ("n[0]", "[0]n")] {
        let (out, why, status) = router.ask(&["capture", port, "--count", "5"]);
        assert_eq!(status, 0, "{why}");
        assert!(out.contains(port) && !out.contains(other), "{port}: {out}");
    }
    let (_, why, status) = router.ask(&["capture", "[1]n", "--count", "5"]);
    assert!(status != 0 && why.contains("none of these is meant"), "{why}");
}

#[test]
fn dropped_packets_say_why() {
    let text = format!(
        "{SOURCE} -> s :: Strip(14) -> c :: CheckIPHeader -> q :: Queue(2) -> Unqueue(ACTIVE false) -> Discard;"
    );
    let router = Running::start(&text, &["-j", "1"]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("drops.pcapng");
    // All that come are dropped by then.
    while router.ask(&["ctl", "q.length"]).0 != "2\n" {
        std::thread::yield_now();
    }
    let path = file.to_str().unwrap();
    let (_, why, status) =
        router.ask(&["capture", "--drops", "queue-full", "q:0", "--count", "20", "-w", path]);
    assert_eq!(status, 0, "{why}");
    let Some(all) = fields(&file, &["frame.interface_name", "frame.comment", "ip.ttl"]) else { return };
    assert_eq!(all.len(), 20);
    for packet in &all {
        assert!(packet[0] == "drops" || packet[0] == "[0]q", "{packet:?}");
        assert_eq!(packet[1], "dropped by q: queue-full: A queue was at its capacity.");
        assert_eq!(packet[2], "64");
    }
    assert!(all.iter().any(|p| p[0] == "drops") && all.iter().any(|p| p[0] == "[0]q"));
    // As lines for people.
    let (out, why, status) = router.ask(&["capture", "--drops", "--count", "1"]);
    assert!(
        status == 0
            && out.contains("drops 10.0.0.1.1000 > 10.0.1.9.53: udp 10")
            && out.contains("(dropped by q"),
        "{out}{why}"
    );
}

/// What comes behind the last packet that was asked for is none of the capture's, however fast it comes.
#[test]
fn a_capture_that_has_enough_has_lost_nothing() {
    let fast = SOURCE.replace("RATE 1000", "RATE 200000");
    let router = Running::start(&format!("{fast} -> q :: Queue -> Unqueue -> Discard;"), &["-j", "1"]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("q.pcapng");
    let path = file.to_str().unwrap();
    for args in [&["--count", "1000"][..], &["--time", "1ms"], &["--count", "1000", "--time", "1ms"]] {
        let all = [&["capture", "[0]q", "-w", path][..], args].concat();
        let (_, why, status) = router.ask(&all);
        assert!(status == 0 && why.contains("packets captured") && !why.contains("lost"), "{args:?}: {why}");
        let exactly = args == ["--count", "1000"];
        assert!(!exactly || why.contains(": 1000 packets captured"), "{why}");
    }
}

#[test]
fn snap_length_and_direction_are_in_the_file() {
    let router = Running::start(&format!("{SOURCE} -> q :: Queue -> Unqueue -> Discard;"), &["-j", "1"]);
    let dir = tempfile::tempdir().unwrap();
    let names = ["frame.interface_name", "frame.len", "frame.cap_len", "frame.packet_flags_direction"];
    for (snap, kept) in [("20", "20"), ("44", "44"), ("65535", "44")] {
        let file = dir.path().join(snap);
        let path = file.to_str().unwrap();
        let (_, why, status) = router.ask(&["capture", "q", "--snap", snap, "--count", "20", "-w", path]);
        assert_eq!(status, 0, "{why}");
        let Some(all) = fields(&file, &names) else { return };
        assert_eq!(all.len(), 20);
        for packet in &all {
            let direction = if packet[0] == "[0]q" { "0x00000001" } else { "0x00000002" };
            assert_eq!(packet[1..], ["44", kept, direction], "{packet:?}");
        }
        assert!(all.iter().any(|p| p[0] == "[0]q") && all.iter().any(|p| p[0] == "q[0]"));
    }
    for (direction, name) in [("in", "[0]q"), ("out", "q[0]")] {
        let file = dir.path().join(direction);
        let path = file.to_str().unwrap();
        let only = ["capture", "q", "--direction", direction, "--count", "20", "-w", path];
        let (_, why, status) = router.ask(&only);
        assert_eq!(status, 0, "{why}");
        let Some(all) = fields(&file, &names) else { return };
        assert!(all.len() == 20 && all.iter().all(|packet| packet[0] == name), "{all:?}");
    }
}

/// A file system with room for some packets, which this script alone sees.
const FULL: &str = r#"mount -t tmpfs -o size=16k none "$OUT" || exit 77
"$JUNCTOR" capture --socket "$SOCKET" q -w "$OUT/a.pcapng" --time 60s
status=$?
cp "$OUT/a.pcapng" "$OUT.pcapng"
exit $status
"#;

#[test]
fn what_a_full_disk_has_kept_is_counted() {
    if testbed::rig::skip("what_a_full_disk_has_kept_is_counted") {
        return;
    }
    let router = Running::start(&format!("{SOURCE} -> q :: Queue -> Unqueue -> Discard;"), &["-j", "1"]);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("disk");
    std::fs::create_dir(&out).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "bash", "-c", FULL]).env("JUNCTOR", env!("CARGO_BIN_EXE_junctor"));
    let ran = command.env("SOCKET", router.socket()).env("OUT", &out).output().expect("unshare");
    let why = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.code() == Some(1) && why.contains("No space left on device"), "{why}");
    let Some(all) = fields(&dir.path().join("disk.pcapng"), &["frame.len"]) else { return };
    // 16384 bytes, of which each packet takes up 100 or so.
    assert!((100..200).contains(&all.len()), "{}", all.len());
    let kept = format!("kept: {} packets", all.len());
    assert!(why.contains(&kept) && why.contains(&format!(" captured, {} kept", all.len())), "{why}");
}

#[test]
fn full_disks_closed_pipes_and_routers_that_go_are_named() {
    let text = format!("{SOURCE} -> q :: Queue -> Unqueue -> Discard;");
    let router = Running::start(&text, &["-j", "1"]);
    let dir = tempfile::tempdir().unwrap();
    if Path::new("/dev/full").exists() {
        let (_, why, status) = router.ask(&["capture", "q", "-w", "/dev/full"]);
        assert!(status == 1 && why.contains("No space left") && why.contains("kept:"), "{why}");
    }
    let missing = dir.path().join("no/such.pcapng");
    let (_, why, status) = router.ask(&["capture", "q", "-w", missing.to_str().unwrap()]);
    assert!(status == 1 && why.contains("no/such.pcapng"), "{why}");
    for (args, status, words) in [
        (&["nope"][..], 2, "no element 'nope'"),
        (&["q:7"], 2, "none of these is meant"),
        (&["q", "-f", "port what"], 2, "port what"),
        (&["q", "-w", "-", "--ring-size", "1K"], 2, "not standard output"),
        (&["--drops", "no-such"], 2, "no packet is dropped for the reason 'no-such'"),
        (&["q", "--ring-size", "x", "-w", "f"], 2, "--ring-size expects"),
        (&[], 2, "required"),
    ] {
        let all: Vec<&str> = [&["capture"], args].concat();
        let (_, why, got) = router.ask(&all);
        assert!(got == status && why.contains(words), "{args:?}: {got}: {why}");
    }
    // Files in turn: the last two are kept, and each is whole.
    let ring = dir.path().join("ring.pcapng");
    let path = ring.to_str().unwrap();
    let (_, why, status) =
        router.ask(&["capture", "q", "--count", "100", "--ring-size", "2K", "--ring-files", "2", "-w", path]);
    assert_eq!(status, 0, "{why}");
    let mut files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 2, "{files:?}: {why}");
    let last = files[1].file_stem().unwrap().to_string_lossy().into_owned();
    let deleted = last.rsplit('-').next().and_then(|n| n.parse::<u64>().ok()).expect("a number") - 2;
    assert!(deleted > 1 && why.contains(&format!("({deleted} older files were deleted)")), "{why}");
    let mut kept = 0;
    for file in &files {
        let Some(read) = told("tcpdump", &[], file) else { return };
        assert!(!read.is_empty() || file == &files[1]);
        kept += read.len();
    }
    assert!(why.contains(&format!("100 packets captured, {kept} kept in ")), "{kept}: {why}");
    // A reader that goes.
    let mut child = Command::new(env!("CARGO_BIN_EXE_junctor"))
        .args(["capture", "--socket", router.socket().to_str().unwrap(), "q", "-w", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut head = [0; 64];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut head).unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(head[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    // A router that goes.
    let file = dir.path().join("gone.pcapng");
    let socket = router.socket().to_owned();
    let child = Command::new(env!("CARGO_BIN_EXE_junctor"))
        .args(["capture", "--socket", socket.to_str().unwrap(), "q", "-w", file.to_str().unwrap()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while std::fs::metadata(&file).map_or(0, |m| m.len()) < 1000 {
        std::thread::yield_now();
    }
    drop(router);
    let output = child.wait_with_output().unwrap();
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(1) && why.contains("the router has ended") && why.contains("kept:"),
        "{why}"
    );
    if let Some(read) = told("tcpdump", &[], &file) {
        assert!(!read.is_empty());
    }
}
