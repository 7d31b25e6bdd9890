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
