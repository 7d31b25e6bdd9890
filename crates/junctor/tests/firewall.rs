// SPDX-License-Identifier: MIT OR Apache-2.0
//! A router with a firewall between two hosts, whose Linux says what passes; and rule files on the command line.

mod firewall_peers;
mod nft;
mod peers;

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use nft::{Dice, PHONES, kernel_router, mac, macs, matches, packet, send};
use serde_json::Value;
use testbed::process::Process;
use testbed::rig::{Cable, Namespace, skip_without, wait_for};

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const PATIENCE: Duration = Duration::from_secs(120);

const RULES: &str = "# Between an office and the world.
zone inside d0
zone outside d1
set shops 192.0.2.2 2001:db8:1::2

accept from inside to outside tcp port 80 dst @shops name web
accept from inside to outside ping,udp
reject from inside to outside tcp port 81 log \"old\"
accept to self ping
reject with prohibited from outside to inside
";

/// A host inside (10.0.0.2), one outside (192.0.2.2), the router between them (.1); both families.
struct Site {
    inside: Namespace,
    outside: Namespace,
    _dut: Namespace,
    files: tempfile::TempDir,
    router: Process,
}

impl Site {
    fn new(rules: &str) -> Site {
        let [inside, outside, dut] = ["in", "out", "dut"].map(|role| Namespace::new(role).unwrap());
        for (host, far, device, [four, six]) in
            [(&inside, "a0", "d0", ["10.0.0", "2001:db8"]), (&outside, "b0", "d1", ["192.0.2", "2001:db8:1"])]
        {
            Cable::default().lay(host, far, &dut, device).unwrap();
            host.sysctl("net/ipv6/conf/all/disable_ipv6", "0").unwrap();
            host.sysctl(&format!("net/ipv6/conf/{far}/disable_ipv6"), "0").unwrap();
            host.ip("link set lo up").unwrap();
            host.ip(&format!("addr add {four}.2/24 dev {far}")).unwrap();
            host.ip(&format!("addr add {six}::2/64 dev {far} nodad")).unwrap();
            host.ip(&format!("route add default via {four}.1")).unwrap();
            host.ip(&format!("route add default via {six}::1")).unwrap();
        }
        let files = tempfile::tempdir().unwrap();
        let path = |name: &str| files.path().join(name).display().to_string();
        std::fs::write(path("rules"), rules).unwrap();
        let interfaces = ["d0=10.0.0.1/24,2001:db8::1/64", "d1=192.0.2.1/24,2001:db8:1::1/64"];
        let rules = path("rules");
        let command = [JUNCTOR, "init", "router", interfaces[0], interfaces[1], "--firewall", &rules];
        let text = dut.run(&command).unwrap();
        let text = text.replace("FromDevice(", "FromDevice(METHOD AF_PACKET, ");
        std::fs::write(path("r.click"), text.replace("ToDevice(", "ToDevice(METHOD AF_PACKET, ")).unwrap();
        let mut router = dut.spawn(&[JUNCTOR, "run", "--control", &path("sock"), &path("r.click")]).unwrap();
        wait_for("the router", PATIENCE, || files.path().join("sock").exists() || router.ended().is_some())
            .unwrap();
        assert!(router.ended().is_none(), "{}", router.stderr());
        Site { inside, outside, _dut: dut, files, router }
    }

    /// Runs `junctor` with these words and the router's socket.
    fn junctor(&self, words: &[&str]) -> Output {
        let socket = self.files.path().join("sock");
        Command::new(JUNCTOR).args(words).arg("--socket").arg(socket).output().unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.junctor(&[words, &["--json"]].concat());
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Replaces the file of rules and loads it.
    fn load(&self, rules: &str, more: &[&str]) -> Output {
        std::fs::write(self.files.path().join("rules"), rules).unwrap();
        self.junctor(&[&["firewall", "load"], more].concat())
    }
}

/// Connects from one host to a server on another by both families, and says what came of it.
const CONNECT: &str = r#"
import socket, sys
for address in sys.argv[2:]:
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    s.settimeout(float(sys.argv[1].split("/")[1]))
    try:
        s.connect((address, int(sys.argv[1].split("/")[0])))
        s.sendall(b"x" * 100000)
        s.shutdown(socket.SHUT_WR)
        n = 0
        while True:
            got = s.recv(65536)
            if not got: break
            n += len(got)
        print(address, n)
    except Exception as e:
        print(address, type(e).__name__)
"#;

/// Sends back what it gets, when the other side has closed: half-closed connections go on.
const SERVE: &str = r#"
import socket, sys, threading
s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("::", int(sys.argv[1])))
s.listen()
print("listening", flush=True)
def serve(c):
    data = b""
    while True:
        got = c.recv(65536)
        if not got: break
        data += got
    c.sendall(data)
    c.close()
while True:
    c, _ = s.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
"#;

fn connect(from: &Namespace, port: u16, patience: u32, to: [&str; 2]) -> String {
    let what = format!("{port}/{patience}");
    from.run(&["python3", "-c", CONNECT, &what, to[0], to[1]]).unwrap()
}

fn serve(on: &Namespace, port: u16) -> Process {
    let mut server = on.spawn(&["python3", "-c", SERVE, &port.to_string()]).unwrap();
    server.wait_for_text("listening", PATIENCE).unwrap();
    server
}

fn ping(from: &Namespace, to: &str) -> Result<String, String> {
    from.run(&["ping", "-n", "-c", "1", "-W", "5", to]).map_err(|why| why.to_string())
}

const SHOPS: [&str; 2] = ["192.0.2.2", "2001:db8:1::2"];
const OFFICE: [&str; 2] = ["10.0.0.2", "2001:db8::2"];

#[test]
fn linux_sees_what_rules_say() {
    if skip_without("linux_sees_what_rules_say", &["ping", "python3", "ethtool"]) {
        return;
    }
    // A host that gets a late copy when all is over answers with a reset: that is an end, too.
    let mut site = Site::new(&format!("{RULES}timeout tcp-reset 10m\n"));
    let (_web, _old) = (serve(&site.outside, 80), serve(&site.outside, 81));
    let _inner = serve(&site.inside, 80);
    for address in ["192.0.2.2", "2001:db8:1::2", "192.0.2.1", "2001:db8::1"] {
        wait_for(address, PATIENCE, || ping(&site.inside, address).is_ok()).unwrap();
    }
    // Whole connections, half-closed for a while, of both families.
    let served = connect(&site.inside, 80, 60, SHOPS);
    assert_eq!(served, "192.0.2.2 100000\n2001:db8:1::2 100000\n");
    // A reset, at once; what no rule matches is dropped.
    assert_eq!(
        connect(&site.inside, 81, 60, SHOPS),
        "192.0.2.2 ConnectionRefusedError\n2001:db8:1::2 ConnectionRefusedError\n"
    );
    assert_eq!(connect(&site.inside, 82, 1, SHOPS), "192.0.2.2 TimeoutError\n2001:db8:1::2 TimeoutError\n");
    // Errors, which Linux distinguishes.
    for (address, said) in [(OFFICE[0], "Packet filtered"), (OFFICE[1], "Administratively prohibited")] {
        let why = ping(&site.outside, address).unwrap_err();
        assert!(why.contains(said), "{why}");
    }
    let refused = connect(&site.outside, 80, 60, OFFICE);
    assert!(!refused.contains("100000") && !refused.contains("Timeout"), "{refused}");

    // What was seen.
    let shown = site.json(&["firewall", "show"]);
    let rules = shown["rules"].as_array().unwrap();
    let of = |words: &str| rules.iter().find(|r| r["text"].as_str().unwrap().contains(words)).unwrap();
    assert_eq!(of("name web")["packets"], 2);
    // One that waits long for its answer asks again.
    assert!(of("port 81")["packets"].as_u64() >= Some(2));
    assert!(
        of("default")["packets"].as_u64() >= Some(2) && of("with prohibited")["packets"].as_u64() >= Some(4)
    );
    let table = String::from_utf8(site.junctor(&["firewall", "show"]).stdout).unwrap();
    assert!(table.contains("accept from inside to outside tcp port 80 dst @shops name web"), "{table}");
    let log = site.junctor(&["firewall", "log", "--json"]);
    let events: Vec<Value> =
        log.stdout.split(|b| *b == b'\n').filter_map(|l| serde_json::from_slice(l).ok()).collect();
    assert!(events.len() >= 2, "{log:?}");
    assert_eq!((&events[0]["text"], &events[0]["action"]), (&"old".into(), &"reject".into()));
    assert!(events.iter().any(|e| e["destination"] == "[2001:db8:1::2]:81"), "{events:?}");
    let sessions = site.json(&["sessions", "--port", "80"]);
    let found = sessions["sessions"].as_array().unwrap();
    assert!(
        found.iter().all(|s| ["closed", "reset"].contains(&s["state"].as_str().unwrap())
            && s["bytes_there"].as_u64() > Some(100_000)),
        "{sessions:#}"
    );
    assert_eq!(found.len(), 2, "{sessions:#}");
    let count =
        |state: &str| site.json(&["sessions", "--count", "--port", "80", "--state", state])["count"].as_u64();
    assert_eq!(count("closed").zip(count("reset")).map(|(closed, reset)| closed + reset), Some(2));
    let top = site.json(&["sessions", "--top", "1"]);
    assert!(top["top"][0]["bytes"].as_u64() > Some(200_000), "{top}");

    sets(&site);
    macs_of_hosts(&site);
    changes(&site);
    assert!(site.router.ended().is_none());
}

/// A set changes while the rules stay.
fn sets(site: &Site) {
    let set = |words: &[&str]| site.json(&[&["firewall", "set", "shops"], words].concat());
    assert_eq!(set(&["remove", SHOPS[0]])["entries"], 1);
    // Of one family only.
    assert_eq!(connect(&site.inside, 80, 1, SHOPS), "192.0.2.2 TimeoutError\n2001:db8:1::2 100000\n");
    assert_eq!(set(&["add", SHOPS[0], "for", "1h"])["entries"], 2);
    assert_eq!(connect(&site.inside, 80, 60, SHOPS), "192.0.2.2 100000\n2001:db8:1::2 100000\n");
    // Pings begin no connection of the rule with the set, so its change is not against them; the other connections end.
    let ended = set(&["remove", SHOPS[0], "--revalidate"])["ended"].as_u64();
    assert!(ended >= Some(1), "{ended:?}");
    set(&["add", SHOPS[0]]);
}

/// Rules ask for the MAC address of the host inside, by a set that changes.
fn macs_of_hosts(site: &Site) {
    let [a, b, c, d, e, f] = site.inside.mac("a0").unwrap();
    let host = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
    let asks = RULES.replace("accept from inside to outside", "accept from inside to outside mac @hosts")
        + "set hosts macs\n";
    let loaded = site.load(&asks, &["--json", "--revalidate"]);
    let loaded: Value = serde_json::from_slice(&loaded.stdout).unwrap();
    // What there is may have come from any host.
    assert!(loaded["unjudged"].as_u64() >= Some(1) && loaded["refused"] == 0, "{loaded}");
    assert_eq!(connect(&site.inside, 80, 1, SHOPS), "192.0.2.2 TimeoutError\n2001:db8:1::2 TimeoutError\n");
    let set = |words: &[&str]| site.json(&[&["firewall", "set", "hosts"], words].concat());
    assert_eq!(set(&["add", &host, "02:00:00:00:00:00/24", "for", "1h"])["entries"], 2);
    assert_eq!(connect(&site.inside, 80, 60, SHOPS), "192.0.2.2 100000\n2001:db8:1::2 100000\n");
    assert_eq!(set(&["test", &host])["by"][0]["entry"], host.as_str());
    // Fragments have the address of the first one when they are together.
    site.inside.run(&["ping", "-n", "-c", "1", "-W", "60", "-s", "3000", SHOPS[0]]).unwrap();
    let saved = site.files.path().join("hosts").display().to_string();
    assert_eq!(set(&["save", &saved])["entries"], 2);
    set(&["flush"]);
    assert!(site.inside.run(&["ping", "-n", "-c", "1", "-W", "1", "-s", "3000", SHOPS[0]]).is_err());
    set(&["load", &saved]);
    assert_eq!(connect(&site.inside, 80, 60, SHOPS), "192.0.2.2 100000\n2001:db8:1::2 100000\n");
    let back = site.load(RULES, &[]);
    assert!(String::from_utf8_lossy(&back.stdout).contains("rules are in place"), "{back:?}");
}

/// Rules are replaced while connections last.
fn changes(site: &Site) {
    let mut pings = site.inside.spawn(&["ping", "-n", "-O", "-i", "0.1", "-w", "100", SHOPS[0]]).unwrap();
    pings.wait_for_text("icmp_seq=3 ", PATIENCE).unwrap();
    // A mistake changes nothing.
    let wrong = site.load(&RULES.replace("accept from inside", "accept form inside"), &[]);
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && said.contains("unknown word 'form'"), "{said}");
    let quiet = RULES.replace("accept from inside to outside ping,udp\n", "");
    let loaded = site.load(&quiet, &["--json"]);
    let loaded: Value = serde_json::from_slice(&loaded.stdout).unwrap();
    assert!(loaded["refused"].as_u64() >= Some(1) && loaded["ended"] == false, "{loaded}");
    // The one that was there goes on; another one does not begin.
    pings.wait_for_text("icmp_seq=9 ", PATIENCE).unwrap();
    assert!(ping(&site.inside, SHOPS[0]).is_err());
    let web = site.json(&["firewall", "show"])["rules"][0]["packets"].clone();
    assert_eq!(web, 9, "counts stay");
    let loaded = site.load(&quiet, &["--revalidate"]);
    assert!(String::from_utf8_lossy(&loaded.stdout).contains("have been ended"), "{loaded:?}");
    pings.wait_for_text("no answer yet", PATIENCE).unwrap();
    let none = site.json(&["sessions", "--address", SHOPS[0], "--protocol", "icmp", "--state", "open"]);
    assert_eq!(none["count"], 0, "{none}");
    let ended = site.junctor(&["sessions", "--address", "10.0.0.0/8", "--end"]);
    assert!(ended.status.success(), "{ended:?}");
}

/// A router whose firewall logs packets from a link, of the router itself, and, when `later` begins, to the router.
fn logging(files: &std::path::Path) -> Process {
    let rules = "default drop log\nzone inside eth1\nzone outside eth0\n\
        accept from inside to outside udp log \"out\"\n\
        reject from outside to inside tcp port 22 log \"an \u{fc}ber try\"\n\
        drop from self log \"own\"\n";
    std::fs::write(files.join("rules"), rules).unwrap();
    let source = |headers: &str, more: &str| {
        let bytes = wire::compose::compose(headers).unwrap().bytes;
        let check = if headers.starts_with("ip6") { "CheckIP6Header" } else { "CheckIPHeader" };
        let hex = wire::fields::hex(&bytes);
        format!("InfiniteSource(DATA \\<{hex}>, LIMIT 1, STOP false{more}) -> {check}")
    };
    let long = source("ip 10.0.0.2 to 192.0.2.1 / udp 40000 to 40001 / payload 372", "");
    let six = source("ip6 2001:db8:1::2 to 2001:db8::2 / tcp 40000 to 22 flags S", "");
    let own = source("ip 192.0.2.9 to 192.0.2.1 / udp 40000 to 40001", "");
    let last = source("ip 192.0.2.1 to 192.0.2.9 / udp 40002 to 40001 / payload 5", ", ACTIVE false");
    let outputs: String = (0..10).map(|n| format!("fw[{n}] -> Discard; ")).collect();
    let config = format!(
        "fw :: Firewall({}, LINK eth0, LINK eth1); {outputs}
        ToEth0 :: Null -> [1] fw; {long} -> Paint(2) -> ToEth0; {own} -> Paint(0) -> ToEth0;
        {six} -> Paint(1) -> [5] fw;
        later :: {last} -> Paint(1) -> [0] fw;
        Idle -> [2] fw; Idle -> [3] fw; Idle -> [4] fw;",
        files.join("rules").display()
    );
    std::fs::write(files.join("r.click"), config).unwrap();
    let mut command = Command::new(JUNCTOR);
    command.arg("run").arg("--control").arg(files.join("sock")).arg(files.join("r.click"));
    Process::spawn(command, "junctor run".to_owned()).unwrap()
}

/// The fields of packets that tshark shows, in the order of [`FIELDS`], sorted.
fn shown(output: &str) -> Vec<Vec<String>> {
    let mut lines: Vec<Vec<String>> =
        output.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect();
    lines.sort();
    lines
}

const FIELDS: [&str; 8] = [
    "frame.interface_name",
    "frame.len",
    "frame.cap_len",
    "ip.src",
    "ipv6.src",
    "data.data",
    "frame.packet_flags_direction",
    "frame.comment",
];

/// tshark that prints these fields of a capture.
fn tshark(fields: &[&str]) -> Command {
    let mut command = Command::new("tshark");
    command.args(["-n", "-T", "fields", "-E", "separator=|"]);
    fields.iter().for_each(|field| _ = command.args(["-e", field]));
    command
}

#[test]
fn logged_packets_are_what_tshark_reads() {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("logged_packets_are_what_tshark_reads: skipped: there is no tshark");
        return;
    }
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).display().to_string();
    let mut router = logging(files.path());
    let junctor = |words: &[&str]| {
        let mut command = Command::new(JUNCTOR);
        command.args(words).args(["--socket", &path("sock")]);
        command
    };
    let log = |words: &[&str]| {
        let words = [&["firewall", "log"], words].concat();
        String::from_utf8(junctor(&words).output().unwrap().stdout).unwrap()
    };
    let seen = wait_for("three events", PATIENCE, || {
        router.ended().is_some() || log(&["--json"]).lines().count() == 3
    });
    assert!(router.ended().is_none() && seen.is_ok(), "{}", router.stderr());
    log(&["--pcapng", &path("log.pcapng")]);
    let read = |fields: &[&str]| {
        let output = tshark(fields).args(["-r", &path("log.pcapng")]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let payload = wire::fields::hex(&(0..100).collect::<Vec<u8>>());
    let want = [
        ["eth1", "400", "128", "10.0.0.2", "", &payload, "1", "accept by line 4 \"out\", from eth1 to eth0"],
        [
            "eth0",
            "60",
            "60",
            "",
            "2001:db8:1::2",
            "",
            "1",
            "reject by line 5 \"an \u{fc}ber try\", from eth0 to eth1",
        ],
        ["eth0", "28", "28", "192.0.2.9", "", "", "2", "drop by line 6 \"own\", from self to eth0"],
    ];
    let owned = |fields: [&str; 8]| fields.map(str::to_owned).to_vec();
    let mut want: Vec<Vec<String>> = want.into_iter().map(owned).collect();
    want.sort();
    // tshark writes numbers of directions in its own way.
    let plain = |mut lines: Vec<Vec<String>>| {
        let directions = lines.iter_mut().filter_map(|fields| fields.get_mut(6));
        directions.for_each(|text| *text = text.trim_start_matches("0x").trim_start_matches('0').to_owned());
        lines
    };
    assert_eq!(plain(shown(&read(&FIELDS))), want);
    // The times and the order are those of the journal.
    let times: Vec<f64> = read(&["frame.time_epoch"]).lines().map(|time| time.parse().unwrap()).collect();
    let events = log(&["--json"]);
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_journal: Vec<f64> = events.map(|event| event["time"].as_f64().unwrap()).collect();
    assert!(times.iter().zip(&of_journal).all(|(one, other)| (one - other).abs() < 1e-6), "{times:?}");

    // A stream that goes on.
    let words = ["firewall", "log", "--pcapng", "-", "--follow"];
    let mut following = junctor(&words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let stream = following.stdout.take().unwrap();
    let mut reader = tshark(&FIELDS);
    reader.args(["-l", "-c", "4", "-r", "-"]).stdin(stream).stdout(Stdio::piped()).stderr(Stdio::piped());
    let reader = reader.spawn().unwrap();
    let control = ["ctl", "--socket", &path("sock"), "later.active", "true"];
    assert!(Command::new(JUNCTOR).args(control).status().unwrap().success());
    let output = reader.wait_with_output().unwrap();
    let last =
        ["eth0", "33", "33", "192.0.2.1", "", "0001020304", "1", "drop by the default, from eth0 to self"];
    want.push(owned(last));
    want.sort();
    let found = plain(shown(&String::from_utf8(output.stdout).unwrap()));
    following.kill().unwrap();
    following.wait().unwrap();
    assert_eq!(found, want, "{}", String::from_utf8_lossy(&output.stderr));
    let refused = junctor(&["firewall", "log", "--pcapng", "/nowhere/x.pcapng"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("/nowhere/x.pcapng"), "{said}");
}

/// Runs `junctor firewall` on a file with this text.
fn on_file(text: &str, words: &[&str]) -> (i32, String, String) {
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("f.rules");
    std::fs::write(&path, text).unwrap();
    let (verb, rest) = words.split_first().unwrap();
    let output = Command::new(JUNCTOR).args(["firewall", verb]).arg(&path).args(rest).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&files.path().display().to_string(), "");
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

#[test]
fn files_are_checked() {
    let (status, out, err) = on_file(RULES, &["check"]);
    assert_eq!((status, out.as_str(), err.as_str()), (0, "/f.rules: 5 rules, 2 zones, 1 sets: usable\n", ""));
    let (status, out, err) =
        on_file(&format!("{RULES}accept from insid\naccept tcp port 70000\n"), &["check"]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(
        err.contains("/f.rules:11:13") && err.contains("did you mean `inside`?") && err.contains("70000"),
        "{err}"
    );
    let (status, _, err) = on_file(&format!("{RULES}drop from outside to inside tcp\n"), &["check"]);
    assert!(
        status == 0 && err.contains("warning") && err.contains("earlier ones take all its packets"),
        "{err}"
    );
    let (status, out, _) =
        on_file(&format!("{RULES}drop from outside to inside tcp\n"), &["check", "--json"]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert!(status == 0 && found.to_string().contains("W0601"), "{out}");
    let (status, _, err) = on_file("accept \u{0} \u{fffd}", &["check"]);
    assert_eq!(status, 2, "{err}");
}

#[test]
fn routers_of_every_kind_have_a_sound_text() {
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).display().to_string();
    std::fs::write(path("rules"), "zone a d0\nzone b d1\naccept from a to b\n").unwrap();
    let rules = path("rules");
    let (four, six) = (["d0=10.0.0.1/24", "d1=10.0.1.1/24"], ["d0=2001:db8::1/64", "d1=2001:db8:1::1/64"]);
    let both = ["d0=10.0.0.1/24,2001:db8::1/64", "d1=10.0.1.1/24,2001:db8:1::1/64"];
    let host = ["--host", "--netns", "ctl", "--feed", "routes"];
    for interfaces in [four, six, both, [both[0], four[1]], [four[0], six[1]]] {
        for more in [&[][..], &host, &["--bfd"], &[&host[..], &["--bfd"]].concat()] {
            let command =
                [&["init", "router", "--force"], &interfaces[..], more, &["--firewall", &rules]].concat();
            let made = Command::new(JUNCTOR).args(&command).output().unwrap();
            assert!(made.status.success(), "{command:?}: {made:?}");
            std::fs::write(path("r.click"), made.stdout).unwrap();
            let checked = Command::new(JUNCTOR).args(["check", &path("r.click")]).output().unwrap();
            assert!(checked.status.success() && checked.stderr.is_empty(), "{command:?}: {checked:?}");
        }
    }
    for other in ["--mpls", "--ipsec"] {
        let command = [&["init", "router", "--force"], &four[..], &["--firewall", "rules", other]].concat();
        assert_eq!(Command::new(JUNCTOR).args(&command).output().unwrap().status.code(), Some(2));
    }
}

#[test]
fn packets_are_tried() {
    let asked = |zones: [&str; 2], packet: &str| {
        let words: Vec<&str> =
            ["test", "--from", zones[0], "--to", zones[1]].into_iter().chain(packet.split(' ')).collect();
        on_file(RULES, &words)
    };
    for (zones, packet, status, said) in [
        (
            ["inside", "outside"],
            "ip 10.0.0.2 to 192.0.2.2 / tcp 9 to 80 flags S",
            0,
            "accept: line 6: accept from inside",
        ),
        (
            ["inside", "outside"],
            "ip6 2001:db8::2 to 2001:db8:1::2 / tcp 9 to 80 flags S",
            0,
            "accept: line 6",
        ),
        (
            ["inside", "outside"],
            "ip 10.0.0.2 to 192.0.2.3 / tcp 9 to 80 flags S",
            1,
            "drop: no rule matches: default drop",
        ),
        (
            ["inside", "outside"],
            "ip 10.0.0.2 to 192.0.2.2 / tcp 9 to 80 flags A",
            1,
            "drop: it belongs to no connection",
        ),
        (["outside", "inside"], "ip 192.0.2.2 to 10.0.0.2 / udp 9 to 9", 1, "reject: line 10"),
        (
            ["self", "outside"],
            "ip 192.0.2.1 to 192.0.2.2 / udp 9 to 9",
            0,
            "accept: no rule matches: it comes from the router itself",
        ),
        (
            ["garden", "outside"],
            "ip 192.0.2.1 to 192.0.2.2 / udp 9 to 9",
            2,
            "has no zone 'garden'; it has self, inside, outside",
        ),
        (
            ["inside", "outside"],
            "eth 2:0:0:0:0:1 to 2:0:0:0:0:2 / ip 1.2.3.4 to 5.6.7.8 / udp 9 to 9",
            0,
            "accept: line 7",
        ),
        (["inside", "outside"], "arp request 1.2.3.4 to 5.6.7.8", 2, "begins with its IP header"),
        (["inside", "outside"], "ip nowhere", 2, "the packet:"),
    ] {
        let (found, out, err) = asked(zones, packet);
        assert_eq!(found, status, "{packet}: {out} {err}");
        assert!(out.contains(said) || err.contains(said), "{packet}: {out} {err}");
    }
}

#[test]
fn packets_are_tried_with_their_mac_address() {
    let rules = "zone inside d0\nzone outside d1\nset phones 52:54:0:0:0:1 52:54:0:0:1:0/40\n\
        drop mac 52:54:0:0:0:9\naccept from inside to outside mac @phones";
    let asked = |packet: &str| {
        let words = ["test", "--from", "inside", "--to", "outside"].into_iter().chain(packet.split(' '));
        on_file(rules, &words.collect::<Vec<_>>())
    };
    for (link, status, said) in [
        (
            "eth 52:54:0:0:0:1 to 2:0:0:0:0:9 / ",
            0,
            "accept: line 5: accept from inside to outside mac @phones",
        ),
        ("eth 52:54:0:0:1:7 to 2:0:0:0:0:9 / vlan 4 / ", 0, "accept: line 5"),
        ("eth 52:54:0:0:0:9 to 2:0:0:0:0:9 / ", 1, "drop: line 4: drop mac 52:54:0:0:0:9"),
        ("eth 52:54:0:0:0:2 to 2:0:0:0:0:9 / ", 1, "drop: no rule matches: default drop\n"),
        (
            "",
            1,
            "drop: no rule matches: default drop (it has no Ethernet header, so no rule with `mac` matches)",
        ),
    ] {
        for ip in ["ip 10.0.0.2 to 192.0.2.2 / udp 9 to 9", "ip6 2001:db8::2 to 2001:db8:1::2 / udp 9 to 9"] {
            let (found, out, err) = asked(&format!("{link}{ip}"));
            assert!(found == status && out.contains(said), "{link}{ip}: {found} {out} {err}");
        }
    }
    let (found, out, err) = on_file(&format!("{rules}\naccept from self mac @phones"), &["check"]);
    assert!(found == 2 && (out + &err).contains("what the router sends comes from no MAC address"));
}

/// A rule in our words and in those of nftables.
fn rule(dice: &mut Dice) -> (String, String) {
    let ((ours, theirs), (more, yet)) = (matches(dice), macs(dice));
    let (ours, theirs) = (ours + &more, yet + &theirs);
    let action = dice.one(&["accept", "drop", "reject"]);
    (format!("{action}{ours}"), format!("{theirs}counter {action}"))
}

/// What the rules of the kernel's chain have counted.
fn counted(router: &Namespace) -> Vec<u64> {
    let listed: Value =
        serde_json::from_str(&router.run(&["nft", "-j", "list", "chain", "inet", "t", "f"]).unwrap())
            .unwrap();
    let rules =
        listed["nftables"].as_array().unwrap().iter().filter_map(|entry| entry["rule"]["expr"].as_array());
    rules.filter_map(|expr| expr.iter().find_map(|e| e["counter"]["packets"].as_u64())).collect()
}

/// Random rules and packets: the kernel's nftables decide by the same rules on the same packets, and count the same.
#[test]
fn nftables_decide_the_same() {
    let test = "nftables_decide_the_same";
    if skip_without(test, &["nft", "python3", "ethtool"]) {
        return;
    }
    let files = tempfile::tempdir().unwrap();
    let mut all_known = 0;
    for seed in 0..6 {
        // The kernel's connections are those of a namespace.
        let Some((router, hosts)) = kernel_router() else {
            eprintln!("{test} skipped: this kernel has no nftables");
            return;
        };
        let mut dice = Dice(seed * 7919 + 1);
        let rules: Vec<(String, String)> = (0..40).map(|_| rule(&mut dice)).collect();
        let theirs: String = rules.iter().map(|(_, theirs)| format!("    {theirs}\n")).collect();
        let chain = format!(
            "flush ruleset\ntable inet t {{\n\
             set hosts4 {{ type ipv4_addr; flags interval; elements = {{ 10.0.0.4/30, 192.0.2.7, 192.0.2.32/28 }} }}\n\
             set hosts6 {{ type ipv6_addr; flags interval; elements = {{ 2001:db8::4/126, 2001:db8:1::7, 2001:db8:1::20/124 }} }}\n\
             set some {{ type inet_service; flags interval; elements = {{ 2, 6-8 }} }}\n{}\
             chain f {{ type filter hook forward priority 0; policy drop;\n    ct state established,related counter accept\n{theirs}    counter drop\n}}\n}}\n",
            PHONES[0]
        );
        let path = files.path().join("chain.nft");
        std::fs::write(&path, chain).unwrap();
        router.run(&["nft", "-f", &path.display().to_string()]).unwrap();
        let ours: String = rules.iter().map(|(ours, _)| format!("{ours}\n")).collect();
        let text = format!(
            "zone z0 d0\nzone z1 d1\nset some 2 6-8\n\
             set hosts 10.0.0.4/30 192.0.2.7 192.0.2.32/28 2001:db8::4/126 2001:db8:1::7 2001:db8:1::20/124\n{}{ours}",
            PHONES[1]
        );
        let reading = firewall::read("ours", &text, std::path::Path::new("."));
        let shown = lang::render(&reading.diagnostics, &reading.sources, false);
        let ruleset = firewall::Ruleset::new(reading.policy.unwrap_or_else(|| panic!("{shown}"))).unwrap();
        let mut fw = firewall::Firewall::new(ruleset.into(), 1);
        let composed = |headers: &str| {
            wire::compose::compose(headers).unwrap_or_else(|why| panic!("{headers}: {why}")).bytes
        };
        // Each connection once.
        let mut seen = std::collections::HashSet::new();
        let packets: Vec<_> = (0..300)
            .map(|_| packet(&mut dice))
            .filter(|(_, there, back)| seen.insert(there.clone()) && seen.insert(back.clone()))
            .collect();
        let (mut known, mut sent) = (0, 0);
        for answers in [false, true] {
            for link in [0, 1] {
                let now: Vec<Vec<u8>> = packets
                    .iter()
                    .filter(|(from, ..)| (*from == link) != answers)
                    .map(|(_, there, back)| composed(if answers { back } else { there }))
                    .collect();
                for bytes in &now {
                    let (from, to) = (link as u8 + 1, 2 - link as u8);
                    let mac = Some(mac(bytes).into());
                    let packet = firewall::Arrival { ip: bytes, from, to, vrfs: [0; 2], mac };
                    let decision = fw.judge_arrival(1, packet);
                    known += u64::from(decision.is_known);
                }
                sent += now.len() as u64;
                send(&files, &hosts[link], &router, link, &now.iter().collect::<Vec<_>>());
            }
        }
        wait_for("the kernel", PATIENCE, || counted(&router).iter().sum::<u64>() >= sent).unwrap();
        let theirs = counted(&router);
        let mut ours: Vec<u64> = fw.counts().iter().map(|counts| counts.packets).collect();
        // An answer to nothing is for the rules there. Here it is dropped where it would have been accepted.
        ours.insert(0, known);
        let strays = sent - ours.iter().sum::<u64>();
        let more: u64 = ours.iter().zip(&theirs).map(|(ours, theirs)| theirs.abs_diff(*ours)).sum();
        assert_eq!(more, strays, "{seed}: {ours:?} {theirs:?}\n{text}");
        all_known += known;
    }
    assert!(all_known > 50, "{all_known}");
}
