// SPDX-License-Identifier: MIT OR Apache-2.0
//! The web page of `junctor manage`, used in a browser while a router runs.

use std::ffi::OsStr;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::start;

/// Two workers, a queue between them, and packets that are dropped: half of them have a wrong checksum.
const TEXT: &str = "
    good :: RatedSource(DATA \\<4500001c00000000401165c00a0000090a000109 0001000200080000>, RATE 2000, LIMIT -1);
    broken :: RatedSource(DATA \\<4500001c00000000401100000a0000090a000109 0001000200080000>, RATE 500, LIMIT -1);
    good -> check :: CheckIPHeader(VERBOSE false) -> ttl :: DecIPTTL -> q :: Queue(200) -> u :: Unqueue -> c :: Counter -> Discard;
    broken -> check;
    ttl[1] -> ICMPError(10.0.0.1, timeexceeded) -> Discard;
    StaticThreadSched(good 0, broken 0, u 1)";

/// Twenty chains of fifty elements.
fn large() -> String {
    let chain = |chain: usize| {
        let counters: String = (0..48).map(|at| format!("c{chain}_{at} :: Counter -> ")).collect();
        format!("s{chain} :: RatedSource(RATE 50, LIMIT -1) -> {counters} d{chain} :: Discard;\n")
    };
    (0..20).map(chain).collect()
}

#[test]
fn the_page_is_used_in_a_browser() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (router, second, tokens) = (path("r.sock"), path("large.sock"), path("tokens"));
    let made = Command::new(env!("CARGO_BIN_EXE_junctor"))
        .args(["manage", "--new-token", "ada:admin"])
        .output()
        .unwrap();
    let text = String::from_utf8(made.stdout).unwrap() + &String::from_utf8(made.stderr).unwrap();
    let line = text.lines().find(|line| line.contains("sha256:")).unwrap_or_else(|| panic!("{text}"));
    let line = &line[line.find("ada").unwrap()..];
    std::fs::write(&tokens, format!("{line}\n")).unwrap();
    std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o600)).unwrap();
    let token = text
        .split_whitespace()
        .find(|word| word.len() >= 40 && !word.contains(':'))
        .unwrap_or_else(|| panic!("{text}"));

    let _router = start(
        directory.path(),
        "router",
        &["run", "-j", "2", "--time", "600", "--stats", "100ms", "--control", &router, "-R", "-e", TEXT],
    );
    let _large = start(
        directory.path(),
        "large",
        &["run", "-j", "1", "--time", "600", "--stats", "100ms", "--control", &second, "-e", &large()],
    );
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listen = format!("127.0.0.1:{port}");
    let [edge, large] =
        [("edge", &router), ("large", &second)].map(|(name, socket)| format!("{name}={socket}"));
    let audit = path("audit");
    let arguments = [
        "manage", "--listen", &listen, "--tokens", &tokens, "--router", &edge, "--router", &large, "--audit",
        &audit,
    ];
    let _service = start(directory.path(), "manage", &arguments);
    assert!(TcpStream::connect(&listen).is_ok());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/web_page.py");
    // Without Chromium it says so.
    if let Some(said) =
        testbed::scapy::ask(script, &[OsStr::new(&format!("http://{listen}")), OsStr::new(token)])
    {
        println!("{said}");
    }
}
