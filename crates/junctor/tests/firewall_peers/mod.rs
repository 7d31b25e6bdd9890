// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients and servers of other programs, with the firewall between them.

use testbed::rig::{Namespace, PYTHON, skip_without, wait_for};

use super::peers::{self, serve_ftp};
use super::{OFFICE, PATIENCE, SHOPS, Site, ping};

/// Serves one file by TFTP (RFC 1350), each from a port of its own. Its arguments are address and text.
const TFTP_SERVER: &str = r#"
import socket, sys
six = ":" in sys.argv[1]
family = socket.AF_INET6 if six else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 69))
print("listening", flush=True)
while True:
    request, client = s.recvfrom(2000)
    if request[:2] != b"\0\x01": continue
    t = socket.socket(family, socket.SOCK_DGRAM)
    t.bind((sys.argv[1], 0))
    t.settimeout(2)
    for _ in range(5):
        t.sendto(b"\0\x03\0\x01" + sys.argv[2].encode(), client)
        try:
            if t.recvfrom(2000)[0][:4] == b"\0\x04\0\x01": break
        except TimeoutError: pass
"#;

fn fetch(from: &Namespace, form: &[&str], address: &str) -> Result<String, String> {
    let command = [&["curl", "-sS", "--max-time", "60"], form, &[address]].concat();
    from.run(&command).map_err(|why| why.to_string())
}

/// The URL of a file.
fn url(scheme: &str, host: &str) -> String {
    if host.contains(':') { format!("{scheme}://[{host}]/hello") } else { format!("{scheme}://{host}/hello") }
}

#[test]
fn ftp_opens_its_data_connections() {
    let test = "ftp_opens_its_data_connections";
    if skip_without(test, &["ping", "python3", "ethtool", "curl"]) {
        return;
    }
    if !peers::has_ftp() {
        eprintln!("{test}: skipped, because pyftpdlib is missing");
        return;
    }
    let rules = "zone inside d0\nzone outside d1\naccept ping\n\
        accept from inside to outside tcp port ftp log \"files\"\n\
        accept from outside to inside tcp port ftp\n";
    let site = Site::new(rules);
    let folder = site.files.path().join("ftp");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("hello"), "hello\n").unwrap();
    let folder = folder.display().to_string();
    let places = [(&site.inside, &site.outside, SHOPS), (&site.outside, &site.inside, OFFICE)];
    let _servers: Vec<_> =
        places.iter().flat_map(|(_, on, hosts)| hosts.map(|host| serve_ftp(on, host, &folder))).collect();
    for (from, _, hosts) in &places {
        for host in hosts {
            wait_for(host, PATIENCE, || ping(from, host).is_ok()).unwrap();
        }
    }
    // EPSV, EPRT; and with IPv4 PASV and PORT.
    let pasv = ["--disable-epsv", "--no-ftp-skip-pasv-ip"];
    let forms = [&[][..], &["--ftp-port", "-"], &pasv, &["--ftp-port", "-", "--disable-eprt"]];
    for (from, _, [four, six]) in &places {
        for form in forms {
            assert_eq!(fetch(from, form, &url("ftp", four)).unwrap(), "hello\n", "{four} {form:?}");
        }
        for form in &forms[..2] {
            assert_eq!(fetch(from, form, &url("ftp", six)).unwrap(), "hello\n", "{six} {form:?}");
        }
    }
    let counts = site.junctor(&["ctl", "fw.algs"]);
    let counts = String::from_utf8_lossy(&counts.stdout).into_owned();
    assert!(counts.starts_with("ftp 12 12 0\n"), "{counts}");
    let sessions = site.json(&["sessions"]);
    let sessions = sessions["sessions"].as_array().unwrap();
    assert_eq!(sessions.iter().filter(|session| session["announced_by"] == "ftp").count(), 12);
    let log = site.junctor(&["firewall", "log"]);
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    assert_eq!(log.matches(" accept-related tcp ").count(), 6, "{log}");
    // Without help it stays closed.
    let load = site.load(&format!("{rules}alg ftp off\n"), &[]);
    assert!(load.status.success(), "{load:?}");
    let quick = ["--ftp-port", "-", "--max-time", "3"];
    assert!(fetch(&site.inside, &quick, &url("ftp", SHOPS[0])).is_err());
}

#[test]
fn tftp_servers_answer_from_another_port() {
    let test = "tftp_servers_answer_from_another_port";
    if skip_without(test, &["ping", "python3", "ethtool", "curl"]) {
        return;
    }
    let rules = "zone inside d0\nzone outside d1\naccept ping\naccept from inside to outside udp port tftp\n";
    let site = Site::new(rules);
    for host in SHOPS {
        let mut server = site.outside.spawn(&[PYTHON, "-c", TFTP_SERVER, host, "hello"]).unwrap();
        server.wait_for_text("listening", PATIENCE).unwrap();
        wait_for(host, PATIENCE, || ping(&site.inside, host).is_ok()).unwrap();
        for (switch, opens) in [("on", true), ("off", false)] {
            let load = site.load(&format!("{rules}alg tftp {switch}\n"), &[]);
            assert!(load.status.success(), "{load:?}");
            let patience = if opens { "60" } else { "3" };
            let found = fetch(&site.inside, &["--max-time", patience], &url("tftp", host));
            assert_eq!(found.is_ok_and(|text| text == "hello"), opens, "{host} {switch}");
        }
    }
}

/// Sends SYNs to a server of IPv4 from addresses and ports that nobody has. Its arguments are server, port and count.
const FLOOD: &str = r#"
import random, socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
to = socket.inet_aton(sys.argv[1])
for _ in range(int(sys.argv[3])):
    source = bytes([198, 51, 100, random.randrange(256)])
    tcp = struct.pack("!HHIIBBHHH", random.randrange(1024, 65536), int(sys.argv[2]), random.randrange(2**32), 0, 0x50, 2, 8192, 0, 0)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 40, 0, 0, 64, 6, 0) + source + to
    s.sendto(ip + tcp, (sys.argv[1], 0))
"#;

/// What the firewall says of SYNs that it answers: SYNs, right and wrong acknowledgements, and connections that servers have accepted.
fn synproxy(site: &Site) -> (String, Vec<u64>) {
    let said = site.junctor(&["ctl", "fw.synproxy"]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let mut words = said.split_whitespace();
    let state = words.next().unwrap_or_default().to_owned();
    (state, words.filter_map(|word| word.parse().ok()).collect())
}

#[test]
fn servers_behind_cookies_serve_linux_clients() {
    let test = "servers_behind_cookies_serve_linux_clients";
    if skip_without(test, &["ping", "python3", "ethtool", "nft"]) {
        return;
    }
    let zones = "zone inside d0\nzone outside d1\naccept ping\n";
    let rules = format!("{zones}accept from outside to inside tcp port 80-81 synproxy\n");
    let site = Site::new(&rules);
    let _servers: Vec<_> = OFFICE.iter().map(|host| peers::serve(&site.inside, host, "80")).collect();
    for host in OFFICE {
        wait_for(host, PATIENCE, || peers::ping(&site.outside, &[host]).is_ok()).unwrap();
    }
    // IPv6 hosts have other addresses, too, that routers advertise.
    let serves = |what: &str| {
        for (server, client) in OFFICE.into_iter().zip(["192.0.2.2", "2001:db8:1:"]) {
            let found = peers::connect(&site.outside, server, "80", "60");
            assert!(found.starts_with(client) && found.ends_with(" 100000"), "{what}: {found}");
        }
    };
    serves("at once");
    // A server that refuses.
    for host in OFFICE {
        let found = peers::connect(&site.outside, host, "81", "60");
        assert!(
            ["ConnectionResetError", "BrokenPipeError", "ConnectionRefusedError"].contains(&&*found),
            "{found}"
        );
    }
    let (state, counts) = synproxy(&site);
    assert_eq!((state.as_str(), &counts[1..]), ("on", &[4, 0, 2][..]));
    // Clients without timestamps, and therefore without options; servers without some.
    for (host, name, value) in [
        (&site.outside, "tcp_timestamps", "0"),
        (&site.outside, "tcp_timestamps", "1"),
        (&site.outside, "tcp_sack", "0"),
        (&site.inside, "tcp_window_scaling", "0"),
        (&site.inside, "tcp_window_scaling", "1"),
        (&site.outside, "tcp_window_scaling", "0"),
        (&site.outside, "tcp_window_scaling", "1"),
        (&site.outside, "tcp_sack", "1"),
    ] {
        host.sysctl(&format!("net/ipv4/{name}"), value).unwrap();
        serves(&format!("{name} {value}"));
    }
    // Promises of the file.
    let plain = format!("{rules}synproxy mss 1200 scale 3 sack off\n");
    assert!(site.load(&plain, &[]).status.success());
    serves("other promises");
    assert!(site.load(&format!("{rules}synproxy timestamps off\n"), &[]).status.success());
    serves("no timestamps");
    // Loss in both directions: selective acknowledgements are of the right numbers.
    assert!(site.load(&rules, &[]).status.success());
    let drops = "table inet loss { chain in { type filter hook input priority 0; \
        meta length > 200 numgen random mod 20 0 counter drop; }; }";
    for host in [&site.inside, &site.outside] {
        host.run(&["nft", drops]).unwrap();
    }
    for round in 0..3 {
        serves(&format!("with loss, {round}"));
    }
    for host in [&site.inside, &site.outside] {
        let lost = host.run(&["nft", "list", "ruleset"]).unwrap();
        assert!(lost.contains("counter packets") && !lost.contains("counter packets 0 "), "{lost}");
    }
}

#[test]
fn floods_of_syns_leave_no_connections() {
    let test = "floods_of_syns_leave_no_connections";
    if skip_without(test, &["ping", "python3", "ethtool"]) {
        return;
    }
    let zones = "zone inside d0\nzone outside d1\naccept ping\n";
    let rules = format!("{zones}accept from outside to inside tcp port 80 synproxy\nsynproxy above 100/s\n");
    let site = Site::new(&rules);
    let _server = peers::serve(&site.inside, OFFICE[0], "80");
    wait_for("the office", PATIENCE, || peers::ping(&site.outside, &[OFFICE[0]]).is_ok()).unwrap();
    assert_eq!(peers::connect(&site.outside, OFFICE[0], "80", "60"), "192.0.2.2 100000");
    assert_eq!(synproxy(&site), ("off".to_owned(), vec![0; 4]));
    site.outside.run(&["python3", "-c", FLOOD, OFFICE[0], "80", "3000"]).unwrap();
    wait_for("cookies", PATIENCE, || synproxy(&site).1[0] > 1000).unwrap();
    let (state, counts) = synproxy(&site);
    assert!(state == "on" && counts[0] > 1000 && counts[1..] == [0; 3], "{state} {counts:?}");
    let sessions = site.json(&["sessions", "--count"]);
    assert!(sessions["count"].as_u64().unwrap() + counts[0] < 3100, "{sessions} {counts:?}");
    // Those that can answer are served meanwhile.
    assert_eq!(peers::connect(&site.outside, OFFICE[0], "80", "60"), "192.0.2.2 100000");
    assert_eq!(synproxy(&site).1[1..], [1, 0, 1]);
}
