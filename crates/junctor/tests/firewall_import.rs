// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rule sets of nftables are imported, and decide the same as in the kernel.

mod nft;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use firewall::{Arrival, Firewall, Ruleset, Verdict};
use nft::{Dice, PHONES, kernel_router, mac, macs, matches, packet, send};
use nftables::{Effect, Finding, Imported, Options, import};
use serde_json::Value;
use testbed::rig::{Namespace, skip_without, wait_for};

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const PATIENCE: Duration = Duration::from_secs(120);

const SETS: &str = "set hosts4 { type ipv4_addr; flags interval; elements = { 10.0.0.4/30, 192.0.2.7, 192.0.2.32/28 }; }\n\
    set hosts6 { type ipv6_addr; flags interval; elements = { 2001:db8::4/126, 2001:db8:1::7, 2001:db8:1::20/124 }; }\n\
    set some { type inet_service; flags interval; elements = { 2, 6-8 }; }\n\
    set links { type ifname; elements = { \"d0\", \"d1\" }; }\n\
    set pairs { type ipv4_addr . inet_service; flags interval; elements = { 192.0.2.0/28 . 1-5, 10.0.0.1-10.0.0.6 . 3 }; }\n";

/// Something that a rule asks for, beyond what the firewall's own test has.
fn more(dice: &mut Dice) -> String {
    match dice.below(8) {
        0 => format!("iifname {} ", dice.one(&["!= \"d0\"", "{ \"d0\", \"d1\" }", "@links", "!= \"lo\""])),
        1 => format!(
            "meta l4proto tcp ip daddr . th dport {} ",
            dice.one(&["@pairs", "{ 192.0.2.1-192.0.2.30 . 4 }"])
        ),
        2 => format!(
            "{} ",
            dice.one(&["tcp dport > 5", "udp sport <= 4", "tcp dport != { 2, 4-5 }", "udp sport != 3"])
        ),
        3 => format!(
            "{} ",
            dice.one(&["ct state new", "tcp flags syn / fin,syn,rst,ack", "meta nfproto ipv6"])
        ),
        4 => format!(
            "{} ",
            dice.one(&["icmp type 8 icmp code 0", "icmpv6 type != echo-request", "ip protocol != udp"])
        ),
        _ => matches(dice).1,
    }
}

/// Packets that begin connections, each once, and their answers.
fn packets(dice: &mut Dice, count: usize) -> Vec<(usize, String, String)> {
    let mut seen = BTreeSet::new();
    (0..count)
        .map(|_| packet(dice))
        .filter(|(_, there, back)| seen.insert(there.clone()) && seen.insert(back.clone()))
        .collect()
}

fn composed(headers: &str) -> Vec<u8> {
    wire::compose::compose(headers).unwrap_or_else(|why| panic!("{headers}: {why}")).bytes
}

/// Loads a text into the kernel, and returns what it lists. Then it adds the probe.
fn loaded(router: &Namespace, files: &tempfile::TempDir, text: &str) -> String {
    let load = |text: &str| {
        let path = files.path().join("rules.nft");
        std::fs::write(&path, text).unwrap();
        router.run(&["nft", "-f", &path.display().to_string()]).unwrap_or_else(|why| panic!("{why}\n{text}"))
    };
    load(&format!("flush ruleset\n{text}"));
    let listing = router.run(&["nft", "-j", "list", "ruleset"]).unwrap();
    load(PROBE);
    listing
}

/// The firewall of an imported file, with the number of each of the two zones.
fn firewall_of(imported: &Imported) -> (Firewall, [u8; 2]) {
    let reading = firewall::read("imported", &imported.rules, Path::new("."));
    let shown = lang::render(&reading.diagnostics, &reading.sources, false);
    let policy = reading.policy.unwrap_or_else(|| panic!("{shown}"));
    let zone = |name: &str| policy.zones.iter().position(|zone| zone.name == name).expect("a zone") as u8;
    let zones = [zone("d0"), zone("d1")];
    (Firewall::new(Ruleset::new(policy).unwrap().into(), 1), zones)
}

fn imported(listing: &str, strict: bool) -> Imported {
    let links = vec!["d0".to_owned(), "d1".to_owned()];
    import(listing, &Options { strict, links, ..Options::default() }).unwrap()
}

/// Chains that jump to each other; rules that decide count.
fn chains(dice: &mut Dice) -> String {
    let mut text = String::new();
    for (n, name) in ["c", "b", "a"].into_iter().enumerate() {
        text += &format!("chain {name} {{\n");
        for _ in 0..8 {
            let asked = macs(dice).1 + &more(dice);
            // To chains that stand before this one: there are no circles.
            let target = ["c", "b"][dice.below(n.max(1) as u64) as usize];
            text += &match dice.below(6) {
                0 if n > 0 => format!("{asked}jump {target}\n"),
                1 if n > 0 => format!("{asked}goto {target}\n"),
                2 => format!("{asked}return\n"),
                _ => format!("{asked}counter {}\n", dice.one(&["accept", "drop", "reject"])),
            };
        }
        text += "}\n";
    }
    text
}

/// What rules that decide have counted, by handle.
fn counted(router: &Namespace) -> BTreeMap<u64, u64> {
    let listed: Value =
        serde_json::from_str(&router.run(&["nft", "-j", "list", "table", "inet", "t"]).unwrap()).unwrap();
    let rules = listed["nftables"].as_array().unwrap().iter().filter_map(|entry| entry.get("rule"));
    rules
        .filter_map(|rule| {
            let count = rule["expr"].as_array()?.iter().find_map(|e| e["counter"]["packets"].as_u64())?;
            Some((rule["handle"].as_u64()?, count))
        })
        .collect()
}

/// Sends packets through the kernel and the firewall, and then answers to those that have passed. Returns how many packets there were, and how many
/// of known connections.
fn sent(
    fw: &mut Firewall,
    zones: [u8; 2],
    packets: &[(usize, String, String)],
    send_now: impl Fn(usize, &[&Vec<u8>]),
) -> (u64, u64) {
    let (mut known, mut count) = (0, 0);
    let mut open = BTreeSet::new();
    for answers in [false, true] {
        for link in [0, 1] {
            let mut now = Vec::new();
            for (sender, there, back) in packets.iter().filter(|(from, ..)| (*from == link) != answers) {
                if answers && !open.contains(there) {
                    continue;
                }
                let bytes = composed(if answers { back } else { there });
                let (from, to, mac) = (zones[link], zones[1 - link], Some(mac(&bytes).into()));
                let decision = fw.judge_arrival(1, Arrival { ip: &bytes, from, to, vrfs: [0; 2], mac });
                known += u64::from(decision.is_known);
                if !answers && decision.verdict == Verdict::Pass {
                    assert_eq!(*sender, link);
                    open.insert(there);
                }
                now.push(bytes);
            }
            count += now.len() as u64;
            send_now(link, &now.iter().collect::<Vec<_>>());
        }
    }
    (count, known)
}

/// Random chains: each rule that decides counts the same packets in the kernel and in the imported file.
#[test]
fn imported_rules_count_the_same() {
    let test = "imported_rules_count_the_same";
    if skip_without(test, &["nft", "python3", "ethtool"]) {
        return;
    }
    let files = tempfile::tempdir().unwrap();
    let (mut all_known, mut all_rules) = (0, BTreeSet::new());
    for seed in 0..6 {
        let Some((router, hosts)) = kernel_router() else {
            eprintln!("{test} skipped: this kernel has no nftables");
            return;
        };
        let mut dice = Dice(seed * 6151 + 5);
        let mut base = String::new();
        for _ in 0..12 {
            let (asked, target) = (more(&mut dice), ["a", "b", "c"][dice.below(3) as usize]);
            base += &match dice.below(4) {
                0 => format!("{asked}jump {target}\n"),
                1 => format!(
                    "{asked}meta l4proto {{ tcp, udp }} th dport vmap {{ 1-2 : jump a, 3 : goto b, 6 : jump {target} }}\n"
                ),
                _ => format!("{asked}counter {}\n", dice.one(&["accept", "drop", "reject"])),
            };
        }
        let text = format!(
            "table inet t {{\n{SETS}{}{}chain f {{ type filter hook forward priority 0; policy accept;\n\
             ct state established,related counter accept\n{base}counter {}\n}}\n}}\n",
            PHONES[0],
            chains(&mut dice),
            dice.one(&["accept", "drop"]),
        );
        let listing = loaded(&router, &files, &text);
        let imported = imported(&listing, false);
        // No packet here has ICMP of the other family, which a rule file cannot refuse.
        let is_about_others = |found: &Finding| !found.why.contains("ICMPv6 over IPv4");
        assert!(!imported.findings.iter().any(is_about_others), "{:#?}\n{text}", imported.findings);
        let (mut fw, zones) = firewall_of(&imported);
        let packets = packets(&mut dice, 300);
        let (sent, known) =
            sent(&mut fw, zones, &packets, |link, now| send(&files, &hosts[link], &router, link, now));
        wait_for("the kernel", PATIENCE, || arrived(&router) >= sent).unwrap();
        // The lines of the file have the handles of the rules that they come from.
        let handles: BTreeMap<u32, u64> =
            imported.origins.iter().filter_map(|(line, place)| Some((*line, place.handle?))).collect();
        let mut ours: BTreeMap<u64, u64> = BTreeMap::new();
        let rules = fw.ruleset().policy.rules.iter().map(|rule| handles.get(&rule.line));
        let default = imported.origins.last().and_then(|(_, place)| place.handle.as_ref());
        for (handle, counts) in rules.chain([default]).zip(fw.counts()) {
            if counts.packets > 0 {
                *ours.entry(*handle.expect("of a rule")).or_default() += counts.packets;
            }
        }
        let theirs = counted(&router);
        // The first rule that counts is the one for known connections.
        let first = *theirs.keys().find(|handle| text_of(&router, **handle).contains("established")).unwrap();
        ours.insert(first, known);
        // The kernel's policy does not count.
        ours.retain(|handle, _| theirs.contains_key(handle));
        let counted: BTreeMap<u64, u64> = theirs.into_iter().filter(|(_, count)| *count > 0).collect();
        ours.retain(|_, count| *count > 0);
        assert_eq!(ours, counted, "{seed}:\n{text}\n{}", imported.rules);
        all_known += known;
        all_rules.extend(counted.keys().map(|handle| (seed, *handle)));
    }
    assert!(all_known > 50 && all_rules.len() > 40, "{all_known} {}", all_rules.len());
}

fn text_of(router: &Namespace, handle: u64) -> String {
    let listed = router.run(&["nft", "-a", "list", "table", "inet", "t"]).unwrap();
    let mark = format!("# handle {handle}");
    listed.lines().find(|line| line.ends_with(&mark)).unwrap_or_default().to_owned()
}

/// What a rule asks for that a rule file cannot say, and that all, some or none of the packets have.
const BEYOND: [&str; 6] = [
    "meta mark 0 ",
    "ip ttl > 1 ",
    "meta length > 60 ",
    "ip6 hoplimit 9 ",
    "meta pkttype host ",
    "ip dscp cs0 ",
];

/// Several base chains of all families; with `beyond`, rules that cannot be said.
fn base_chains(dice: &mut Dice, beyond: bool) -> String {
    let mut text = String::new();
    for (family, priority) in [("ip", 1), ("inet", 2), ("ip6", 3)] {
        // Tables of one family have no addresses of the other.
        let asked = |dice: &mut Dice| loop {
            let mut asked = more(dice);
            if beyond && dice.below(3) == 0 {
                asked += dice.one(&BEYOND);
            }
            let has = |words: &[&str]| words.iter().any(|word| asked.contains(word));
            let (four, six) = (has(&["ip ", "icmp "]), has(&["ip6 ", "icmpv6 ", "ipv6"]));
            let is_mixed = (family == "ip" || four) && six || family == "ip6" && four;
            if !is_mixed && (family == "inet" || !has(&["@hosts", "nfproto"])) {
                return asked;
            }
        };
        let mut rules = [String::new(), String::new()];
        for (n, rules) in rules.iter_mut().enumerate() {
            for _ in 0..7 {
                let asked = asked(dice);
                *rules += &match dice.below(8) {
                    0 if n == 1 => format!("{asked}jump x\n"),
                    1 if n == 1 => format!("{asked}goto x\n"),
                    2 => format!("{asked}return\n"),
                    3 => format!(
                        "{asked}meta l4proto {{ tcp, udp }} th dport vmap {{ 1-3 : accept, 5 : drop, 7-9 : return }}\n"
                    ),
                    4 => format!(
                        "{asked}meta l4proto vmap {{ udp : {}, tcp : continue }}\n",
                        dice.one(&["accept", "drop"])
                    ),
                    _ => format!("{asked}{}\n", dice.one(&["accept", "accept", "drop", "reject"])),
                };
            }
        }
        let policy = dice.one(&["accept", "accept", "drop"]);
        text += &format!(
            "table {family} t{priority} {{\n{SETS}chain x {{\n{}}}\nchain f {{ type filter hook forward priority {priority}; policy {policy};\n\
             ct state established accept\n{}}}\n}}\n",
            rules[0], rules[1]
        );
    }
    text
}

/// A table that notes which packets pass.
const PROBE: &str = "table inet probe {\n\
    set four { type ipv4_addr . ipv4_addr . inet_proto . inet_service . inet_service; flags dynamic; size 10000; }\n\
    set six { type ipv6_addr . ipv6_addr . inet_proto . inet_service . inet_service; flags dynamic; size 10000; }\n\
    chain before { type filter hook prerouting priority 0; icmpv6 type != { echo-request, echo-reply } accept\n meta l4proto { tcp, udp, icmp, ipv6-icmp } counter; }\n\
    chain f { type filter hook forward priority 300; ct state established accept\n\
    add @four { ip saddr . ip daddr . meta l4proto . th sport . th dport }\n\
    add @six { ip6 saddr . ip6 daddr . meta l4proto . th sport . th dport }\n}\n}\n";

/// Packets that passed, as the probe wrote them down.
fn passed(router: &Namespace) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for set in ["four", "six"] {
        let listed = router.run(&["nft", "-j", "list", "set", "inet", "probe", set]).unwrap();
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let sets = listed["nftables"].as_array().unwrap().iter().filter_map(|entry| entry.get("set"));
        for element in sets.filter_map(|set| set["elem"].as_array()).flatten() {
            let element = element.get("elem").map_or(element, |elem| &elem["val"]);
            let parts = element["concat"].as_array().unwrap().iter();
            let words: Vec<String> =
                parts.map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned)).collect();
            all.insert(words.join(" "));
        }
    }
    all
}

/// Packets of the tests that have reached the router.
fn arrived(router: &Namespace) -> u64 {
    let listed = router.run(&["nft", "-j", "list", "chain", "inet", "probe", "before"]).unwrap();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let rules = listed["nftables"].as_array().unwrap().iter();
    let expr = rules.filter_map(|entry| entry["rule"]["expr"].as_array()).flatten();
    expr.filter_map(|e| e["counter"]["packets"].as_u64()).sum()
}

/// The same words for a packet: `ip A to B / tcp 1 to 2 ...`.
fn tuple(headers: &str) -> Option<String> {
    let words: Vec<&str> = headers.split(' ').collect();
    let [_, from, _, to, _, protocol @ ("tcp" | "udp"), sport, _, dport, ..] = words[..] else { return None };
    Some([from, to, protocol, sport, dport].join(" "))
}

/// Random base chains of several tables: what passes in the kernel passes the imported file. Of rules that cannot be said nothing passes more if the import
/// is strict.
#[test]
fn imported_verdicts_are_the_same() {
    let test = "imported_verdicts_are_the_same";
    if skip_without(test, &["nft", "python3", "ethtool"]) {
        return;
    }
    let files = tempfile::tempdir().unwrap();
    let (mut both, mut narrower) = (0, 0);
    for seed in 0..12 {
        let Some((router, hosts)) = kernel_router() else {
            eprintln!("{test} skipped: this kernel has no nftables");
            return;
        };
        let beyond = seed % 2 == 1;
        let mut dice = Dice(seed * 7433 + 3);
        let text = base_chains(&mut dice, beyond);
        let listing = loaded(&router, &files, &text);
        let imported = imported(&listing, beyond);
        let narrows = imported.findings.iter().any(|finding| finding.effect == Effect::Narrower);
        let (mut fw, zones) = firewall_of(&imported);
        let packets: Vec<_> =
            packets(&mut dice, 300).into_iter().filter(|(_, there, _)| tuple(there).is_some()).collect();
        let mut ours = BTreeSet::new();
        for link in [0, 1] {
            let mut now = Vec::new();
            for (_, there, _) in packets.iter().filter(|(from, ..)| *from == link) {
                let bytes = composed(there);
                if fw.judge(1, &bytes, zones[link], zones[1 - link]).verdict == Verdict::Pass {
                    ours.extend(tuple(there));
                }
                now.push(bytes);
            }
            send(&files, &hosts[link], &router, link, &now.iter().collect::<Vec<_>>());
        }
        wait_for("the kernel", PATIENCE, || arrived(&router) >= packets.len() as u64).unwrap();
        let theirs = passed(&router);
        let wider: Vec<&String> = ours.difference(&theirs).collect();
        assert!(wider.is_empty(), "{seed}: {wider:?}\n{text}\n{}", imported.rules);
        let missing: Vec<&String> = theirs.difference(&ours).collect();
        assert!(narrows || missing.is_empty(), "{seed}: {missing:?}\n{text}\n{}", imported.rules);
        both += ours.len();
        narrower += missing.len();
    }
    assert!(both > 100 && narrower > 20, "{both} {narrower}");
}

/// Runs `junctor firewall import` with a listing on standard input.
fn on_listing(listing: &str, words: &[&str]) -> Output {
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("listing.json");
    std::fs::write(&path, listing).unwrap();
    let input = std::fs::File::open(&path).unwrap();
    Command::new(JUNCTOR).args(["firewall", "import"]).args(words).stdin(input).output().unwrap()
}

fn case(name: &str) -> String {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nftables/tests/cases");
    std::fs::read_to_string(cases.join(name)).unwrap()
}

#[test]
fn files_are_written_and_can_be_used() {
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).display().to_string();
    let (rules, nat) = (path("r.rules"), path("r.nat"));
    let listing = case("home-gateway.json");
    let made = on_listing(&listing, &["-", "-o", &rules, "--nat", &nat, "--outside", "203.0.113.7"]);
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert_eq!((made.status.code(), made.stdout.len()), (Some(1), 0), "{said}");
    assert!(
        said.contains("NARROWER: inet filter forward handle 17") && said.contains("1 wider, 1 narrower"),
        "{said}"
    );
    assert_eq!(std::fs::read_to_string(&rules).unwrap(), case("home-gateway.rules"));
    assert_eq!(std::fs::read_to_string(&nat).unwrap(), case("home-gateway.nat"));
    for (what, file) in [("firewall", &rules), ("nat", &nat)] {
        let checked = Command::new(JUNCTOR).args([what, "check", file]).output().unwrap();
        assert!(checked.status.success(), "{checked:?}");
    }
    // Without anything that is missing, the status is 0.
    let table = r#"{"table": {"family": "ip", "name": "t"}}"#;
    let chain = r#"{"chain": {"family": "ip", "table": "t", "name": "f", "handle": 1, "type": "filter", "hook": "forward",
        "prio": 0, "policy": "accept"}}"#;
    let (whole, none) =
        (&*format!(r#"{{"nftables": [{table}, {chain}]}}"#), &*format!(r#"{{"nftables": [{table}]}}"#));
    let made = on_listing(whole, &[]);
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    assert!(String::from_utf8_lossy(&made.stdout).contains("\ndefault accept\n"), "{made:?}");
    let made = on_listing(&listing, &["--json"]);
    let object: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!((made.status.code(), &object["nat"]), (Some(1), &Value::Null));
    assert!(object["findings"].as_array().unwrap().iter().any(|finding| finding["handle"] == 17));
    for (listing, words, said) in [
        ("table inet t {}", &[][..], "give the output of `nft -j list ruleset`"),
        ("{}", &[], "without a list of objects"),
        (none, &[], "no chain with a hook, so there is nothing to import"),
        (whole, &["--nat", "x", "--inside", "ten"], "'ten' is not an IP address"),
        (whole, &["--link", "a b"], "no place for the link 'a b'"),
        (whole, &["/nowhere"], "cannot read '/nowhere'"),
    ] {
        let made = on_listing(listing, words);
        let found = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.code() == Some(2) && found.contains(said), "{found}");
    }
}
