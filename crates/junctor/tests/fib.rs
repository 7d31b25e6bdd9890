// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor fib`, by example, against a linear scan of the real tables, and against the kernel's own table.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testbed::rig::{self, Namespace};

/// Runs `junctor fib` in `dir`; standard output, standard error, status.
fn fib(dir: &Path, args: &[&str], input: &str) -> (String, String, i32) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_junctor"))
        .arg("fib")
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("junctor");
    // What it refuses before it reads leaves the pipe without a reader.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("junctor");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code().unwrap_or(-1))
}

struct Case {
    dir: tempfile::TempDir,
}

impl Case {
    fn new(files: &[(&str, &str)]) -> Case {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).expect("a file");
        }
        Case { dir }
    }

    fn check(&self, args: &[&str], input: &str, want: (&str, &str, i32)) {
        let got = fib(self.dir.path(), args, input);
        assert_eq!((got.0.as_str(), got.1.as_str(), got.2), want, "fib {args:?}");
    }
}

const TABLE: &str = "0.0.0.0/0 1\n10.0.0.0/8 2\n10.1.0.0/16 3\n10.1.1.0/24 4\n10.1.1.128/25 5\n::/0 6\n2001:db8::/32 7\n2001:db8::1/128 8\n";
const UPDATES: &str = "A 10.2.0.0/16 9\nW 10.1.0.0/16\nA 10.0.0.0/8 7\nW 2001:db8::1/128\n";

#[test]
fn lookups() {
    let case = Case::new(&[
        ("t", TABLE),
        ("u", UPDATES),
        ("ip", "10.0.0.0/8 via 192.0.2.1 dev eth0\nblackhole 10.1.0.0/16\n"),
    ]);
    case.check(
        &["lookup", "t", "10.1.1.200", "10.1.2.1", "10.1.1.1", "192.0.2.1", "2001:db8::1", "2001:db8::2", "::1"],
        "",
        (
            "10.1.1.200 10.1.1.128/25 5\n10.1.2.1 10.1.0.0/16 3\n10.1.1.1 10.1.1.0/24 4\n192.0.2.1 0.0.0.0/0 1\n\
             2001:db8::1 2001:db8::1/128 8\n2001:db8::2 2001:db8::/32 7\n::1 ::/0 6\n",
            "",
            0,
        ),
    );
    case.check(
        &["lookup", "t", "u"],
        "10.1.2.1\n\n10.2.0.1\n2001:db8::1\n",
        ("10.1.2.1 10.0.0.0/8 7\n10.2.0.1 10.2.0.0/16 9\n2001:db8::1 2001:db8::/32 7\n", "", 0),
    );
    case.check(
        &["lookup", "ip", "10.0.0.1", "10.1.0.1", "11.0.0.1"],
        "",
        (
            "10.0.0.1 10.0.0.0/8 via 192.0.2.1 dev eth0\n10.1.0.1 10.1.0.0/16 blackhole\n11.0.0.1 none\n",
            "",
            0,
        ),
    );
    case.check(
        &["lookup", "--json", "-", "10.0.0.1", "::1"],
        "10.0.0.0/8 3\n",
        (
            "{\"address\":\"10.0.0.1\",\"next_hop\":\"3\",\"route\":\"10.0.0.0/8\"}\n\
             {\"address\":\"::1\",\"next_hop\":null,\"route\":null}\n",
            "",
            0,
        ),
    );
}

#[test]
fn dumps() {
    let case = Case::new(&[
        ("t", TABLE),
        ("u", UPDATES),
        ("ip", "default via 192.0.2.1 dev eth0\nblackhole 10.1.0.0/16\n"),
    ]);
    case.check(&["dump", "t"], "", (TABLE, "", 0));
    case.check(
        &["dump", "t", "u"],
        "",
        ("0.0.0.0/0 1\n10.0.0.0/8 7\n10.1.1.0/24 4\n10.1.1.128/25 5\n10.2.0.0/16 9\n::/0 6\n2001:db8::/32 7\n", "", 0),
    );
    case.check(
        &["dump", "t", "--within", "10.1.0.0/16"],
        "",
        ("10.1.0.0/16 3\n10.1.1.0/24 4\n10.1.1.128/25 5\n", "", 0),
    );
    let text = "nexthop 0 via 192.0.2.1 dev eth0\nnexthop 1 blackhole\n0.0.0.0/0 0\n10.1.0.0/16 1\n";
    case.check(&["dump", "ip"], "", (text, "", 0));
    case.check(
        &["dump", "--as", "ip", "-"],
        text,
        ("default via 192.0.2.1 dev eth0\nblackhole 10.1.0.0/16\n", "", 0),
    );
    case.check(
        &["dump", "--json", "ip", "--within", "10.0.0.0/8"],
        "",
        ("{\"next_hop\":\"blackhole\",\"route\":\"10.1.0.0/16\"}\n", "", 0),
    );
}

#[test]
fn comparisons() {
    let case = Case::new(&[
        ("a", TABLE),
        ("b", "0.0.0.0/0 1\n10.0.0.0/8 3\n10.1.0.0/16 3\n11.0.0.0/8 2\n::/0 6\n2001:db8::/32 7\n"),
    ]);
    case.check(&["compare", "a", "a"], "", ("8 routes compared, 0 differ\n", "", 0));
    case.check(
        &["compare", "a", "b"],
        "",
        (
            "- 10.0.0.0/8 2\n+ 10.0.0.0/8 3\n- 10.1.1.0/24 4\n- 10.1.1.128/25 5\n+ 11.0.0.0/8 2\n- 2001:db8::1/128 8\n\
             9 routes compared, 5 differ\n",
            "",
            1,
        ),
    );
    case.check(
        &["compare", "--limit", "1", "a", "b"],
        "",
        ("- 10.0.0.0/8 2\n+ 10.0.0.0/8 3\n... and 4 more; --limit 0 prints all\n9 routes compared, 5 differ\n", "", 1),
    );
    case.check(
        &["compare", "a"],
        "",
        ("", "junctor: two route files make a comparison, not 1; or use --kernel\n", 2),
    );
}

#[test]
fn reports() {
    let case = Case::new(&[("t", TABLE), ("u", UPDATES)]);
    let (text, _, status) = fib(case.dir.path(), &["load", "t", "u"], "");
    assert!(
        status == 0
            && text.contains("IPv4 routes                 5\n")
            && text.contains("next hops                   9\n"),
        "{text}"
    );
    let (text, _, status) = fib(case.dir.path(), &["memory", "t"], "");
    assert!(status == 0 && text.contains("     /25                    1 ####"), "{text}");
    let (text, _, _) = fib(case.dir.path(), &["memory", "--json", "t", "u"], "");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let tables = &json["tables"];
    assert_eq!(
        (&tables[0]["routes"], &tables[0]["updates"], &tables[1]["routes"]),
        (&5.into(), &3.into(), &2.into())
    );
    assert_eq!(tables[0]["lengths"], serde_json::json!({"0": 1, "8": 1, "16": 1, "24": 1, "25": 1}));
    assert!(tables[1]["lookup_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{text}");
}

#[test]
fn refusals() {
    let case = Case::new(&[("good", "10.0.0.0/8 1\n"), ("bits", "10.0.0.0/8 1\n10.0.0.1/8 1\n")]);
    let check = |args: &[&str], input: &str, why: &str| {
        case.check(args, input, ("", &format!("junctor: {why}\n"), 2))
    };
    check(
        &["load", "good", "bits"],
        "",
        "bits:2: `10.0.0.1/8` has bits set beyond its length; did you mean 10.0.0.0/8?",
    );
    check(&["dump", "absent"], "", "absent: cannot be opened: No such file or directory (os error 2)");
    check(&["lookup", "10.0.0.1"], "", "no route file is given; name one before the addresses");
    check(
        &["lookup", "-"],
        "10.0.0.0/8 1\n",
        "standard input cannot give both the routes and the addresses; name the addresses as arguments",
    );
    check(&["lookup", "good"], "x\n", "standard input:1: `x` is no IPv4 or IPv6 address");
    check(
        &["dump", "--as", "ip", "good"],
        "",
        "the next hops are bare numbers, which `ip route` has no form for; print them with --as text",
    );
    check(
        &["dump", "good", "--within", "10.0.0.1/8"],
        "",
        "`10.0.0.1/8` has bits set beyond its length; did you mean 10.0.0.0/8?",
    );
    check(
        &["load", "--from", "mrt", "-"],
        "nothing of the kind",
        "standard input:byte 4: a record of type 26478 : this reads table dumps (TABLE_DUMP_V2, type 13), often named rib.* or bview.*"
            .replace(" :", ":")
            .replace("26478", &u16::from_be_bytes(*b"in").to_string())
            .as_str(),
    );
}

#[test]
fn compressed_files() {
    for (tool, suffix) in [("gzip", "gz"), ("bzip2", "bz2"), ("xz", "xz")] {
        let case = Case::new(&[("t", TABLE)]);
        let Ok(status) = Command::new(tool).arg("t").current_dir(case.dir.path()).status() else {
            eprintln!("compressed_files: {tool} skipped, as it is not installed");
            continue;
        };
        assert!(status.success(), "{tool}");
        let name = format!("t.{suffix}");
        case.check(&["dump", &name], "", (TABLE, "", 0));
        let path = case.dir.path().join(&name);
        let bytes = std::fs::read(&path).expect("compressed");
        std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("a file");
        let (out, why, status) = fib(case.dir.path(), &["dump", &name], "");
        assert!(out.is_empty() && status == 2 && why.contains(&name), "{tool}: {why}");
    }
}

fn data(name: &str) -> Option<PathBuf> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = from.ancestors().map(|dir| dir.join("shared/data").join(name)).find(|path| path.exists());
    if found.is_none() {
        eprintln!("{name}: skipped, as shared/data is not beside the repository");
    }
    found
}

/// Hosts in and next to some of the real table's routes, looked up by a linear scan over its lines.
fn check_real(name: &str, v4: bool) {
    let Some(path) = data(name) else { return };
    let unpacked = Command::new("xz").arg("-dc").arg(&path).output().expect("xz").stdout;
    let text = String::from_utf8(unpacked).expect("text");
    let parse = |line: &str| -> (u128, u32, String) {
        let (prefix, id) = line.split_once(' ').expect("two words");
        let (addr, len) = prefix.split_once('/').expect("a prefix");
        let addr = match addr.parse().expect("an address") {
            IpAddr::V4(addr) => u128::from(u32::from(addr)) << 96,
            IpAddr::V6(addr) => addr.into(),
        };
        (addr, len.parse().expect("a length"), format!("{prefix} {id}"))
    };
    let table: Vec<(u128, u32, String)> = text.lines().map(parse).collect();
    let mut random = fastrand::Rng::with_seed(7);
    let mut addresses = String::new();
    let mut want = String::new();
    for round in 0..60 {
        let (first, len, _) = random.choice(&table).expect("a route");
        let hosts = u128::MAX >> len;
        let addr = match round % 3 {
            0 => first | random.u128(..) & hosts,
            1 => first | hosts,
            _ => (first | hosts).wrapping_add(if v4 { 1 << 96 } else { 1 }),
        };
        let shown: IpAddr =
            if v4 { Ipv4Addr::from((addr >> 96) as u32).into() } else { Ipv6Addr::from(addr).into() };
        let covers = |(first, len, _): &&(u128, u32, String)| *len == 0 || (addr ^ first) >> (128 - len) == 0;
        let best = table.iter().filter(covers).max_by_key(|(_, len, _)| *len);
        addresses += &format!("{shown}\n");
        want += &format!("{shown} {}\n", best.map_or("none", |(_, _, route)| route));
    }
    let (got, why, status) = fib(Path::new("."), &["lookup", path.to_str().expect("text")], &addresses);
    assert_eq!((got, why.as_str(), status), (want, "", 0));
}

#[test]
fn real_ipv4_table() {
    check_real("v4-ris-as3333-20260511.txt.xz", true);
}

#[test]
fn real_ipv6_table() {
    check_real("v6-ris-as3333-20260511.txt.xz", false);
}

/// What `ip -batch` reads makes a kernel's table of both families, in a namespace with the networks 192.0.2.0/24 and
/// 2001:db8:ffff::/64; returns it as `ip route` shows it.
fn kernel_table(host: &Namespace, batch: &str) -> String {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), batch).expect("a file");
    for which in ["all", "default"] {
        host.sysctl(&format!("net/ipv6/conf/{which}/disable_ipv6"), "0").expect("sysctl");
    }
    host.ip("link add d0 type veth peer name d1").expect("ip");
    for line in [
        "addr add 192.0.2.1/24 dev d0",
        "addr add 2001:db8:ffff::1/64 dev d0 nodad",
        "link set d1 up",
        "link set d0 up",
    ] {
        host.ip(line).expect("ip");
    }
    host.ip(&format!("-batch {}", file.path().display())).expect("ip -batch");
    host.ip("route show").expect("ip") + &host.ip("-6 route show").expect("ip")
}

/// A kernel's table of both families, with what `ip route` can say.
fn kernel_routes(host: &Namespace) -> String {
    let mut random = fastrand::Rng::with_seed(11);
    let mut batch = String::from(
        "nexthop add id 5 via 192.0.2.3 dev d0\nnexthop add id 6 via 192.0.2.4 dev d0\nnexthop add id 7 group 5,2/6,3\n\
         nexthop add id 15 via 2001:db8:ffff::3 dev d0\nnexthop add id 16 via 2001:db8:ffff::4 dev d0\nnexthop add id 17 group 15/16\n\
         route add default via 192.0.2.9\nroute add default via 2001:db8:ffff::9\n\
         route add 10.0.0.0/8 nhid 7\nroute add 2001:db8::/32 nhid 17\nroute add 10.9.0.0/16 via inet6 2001:db8:ffff::7 dev d0\n\
         route add 10.8.0.0/16 nexthop via 192.0.2.5 weight 2 nexthop via 192.0.2.6\n\
         route add 2001:db8:8::/48 nexthop via 2001:db8:ffff::5 nexthop via 2001:db8:ffff::6\n\
         route add blackhole 10.1.0.0/16\nroute add unreachable 10.2.0.0/16\nroute add prohibit 10.3.0.0/16\n\
         route add blackhole 2001:db8:1::/48\nroute add unreachable 2001:db8:2::/48\nroute add prohibit 2001:db8:3::/48\n",
    );
    for _ in 0..500 {
        let (len, via) = (random.u32(9..=32), random.u8(10..250));
        let addr = Ipv4Addr::from((10 << 24 | random.u32(..1 << 24)) & u32::MAX << (32 - len));
        batch += &format!("route replace {addr}/{len} via 192.0.2.{via}\n");
        let len = random.u32(33..=128);
        let addr = Ipv6Addr::from((0x2001_0db8 << 96 | random.u128(..1 << 96)) & u128::MAX << (128 - len));
        batch += &format!("route replace {addr}/{len} via 2001:db8:ffff::{via:x}\n");
    }
    kernel_table(host, &batch)
}

#[test]
fn the_kernels_table() {
    if rig::skip("the_kernels_table") {
        return;
    }
    let host = Namespace::new("fib").expect("a namespace");
    let routes = kernel_routes(&host);
    let case = Case::new(&[("kernel", &routes)]);
    let compare = ["compare", "--kernel", "--namespace", host.name(), "--samples", "8000", "kernel"];
    let (text, why, status) = fib(case.dir.path(), &compare, "");
    assert!(status == 0 && text.contains(" addresses compared, 0 differ"), "{text}{why}");

    // A route that the file does not know of shows.
    host.ip("route add 10.77.0.0/16 via 192.0.2.200").expect("ip");
    host.ip("route del 10.2.0.0/16").expect("ip");
    let (text, why, status) = fib(case.dir.path(), &compare, "");
    assert!(status == 1 && text.contains("10.77.0.0/16 via 192.0.2.200 dev d0"), "{text}{why}");
    assert!(text.contains("10.2.0.0/16 unreachable"), "{text}");

    // What is dumped as `ip route` makes the same table in another namespace.
    let (dump, why, status) = fib(case.dir.path(), &["dump", "--as", "ip", "kernel"], "");
    assert_eq!((why.as_str(), status), ("", 0));
    let again = fib(case.dir.path(), &["compare", "kernel", "-"], &dump);
    assert!(again.2 == 0, "{}{}", again.0, again.1);
}

/// Each of so many lines of a real table as a command for `ip`, its next hops numbered by `via`.
fn commands(path: &Path, step: usize, via: impl Fn(u32) -> String) -> String {
    let unpacked = Command::new("xz").arg("-dc").arg(path).output().expect("xz").stdout;
    let text = String::from_utf8(unpacked).expect("text");
    let command = |line: &str| {
        let (prefix, id) = line.split_once(' ').expect("two words");
        format!("route add {prefix} via {}\n", via(10 + id.parse::<u32>().expect("an id") % 200))
    };
    text.lines().step_by(step).map(command).collect()
}

/// The kernel's own table is the judge of routes as the Internet has them, tens of thousands of each family.
#[test]
fn the_kernels_table_of_real_routes() {
    let names = ["v4-ris-as3333-20260511.txt.xz", "v6-ris-as3333-20260511.txt.xz"];
    let [Some(v4), Some(v6)] = names.map(data) else { return };
    if rig::skip("the_kernels_table_of_real_routes") {
        return;
    }
    let host = Namespace::new("real").expect("a namespace");
    let batch = commands(&v4, 40, |n| format!("192.0.2.{n}"))
        + &commands(&v6, 20, |n| format!("2001:db8:ffff::{n:x}"));
    assert!(batch.lines().count() > 30_000);
    let case = Case::new(&[("kernel", &kernel_table(&host, &batch))]);
    let compare = ["compare", "--kernel", "--namespace", host.name(), "--samples", "8000", "kernel"];
    let (text, why, status) = fib(case.dir.path(), &compare, "");
    assert!(status == 0 && text.contains(" addresses compared, 0 differ"), "{text}{why}");
}
