// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forwards, static addresses, the router's own packets, and what outsiders may not.

use super::*;

#[test]
fn forwards_lead_inside_also_by_the_outside_address() {
    let mut nat = nat(&format!(
        "{HOME}\nforward tcp 443 to 10.0.1.20 port 8443\nforward udp 5000-5003 to 10.0.1.21 port 6000"
    ));
    let found = come(&mut nat, 0, "ip 203.0.113.1 > 192.0.2.1 / tcp 9000 > 443 flags S").unwrap();
    assert_eq!(found, "203.0.113.1:9000 > 10.0.1.20:8443");
    let answer = out(&mut nat, 0, "ip 10.0.1.20 > 203.0.113.1 / tcp 8443 > 9000 flags SA").unwrap();
    assert_eq!(answer, "192.0.2.1:443 > 203.0.113.1:9000");
    assert_eq!(
        come(&mut nat, 0, "ip 203.0.113.1 > 192.0.2.1 / udp 9000 > 5003").unwrap(),
        "203.0.113.1:9000 > 10.0.1.21:6003"
    );
    // From inside, and back.
    let found = come(&mut nat, 0, "ip 10.0.1.5 > 192.0.2.1 / tcp 4000 > 443 flags S").unwrap();
    let client = port(&found);
    assert_eq!(found, format!("192.0.2.1:{client} > 10.0.1.20:8443"));
    let answer =
        come(&mut nat, 0, &format!("ip 10.0.1.20 > 192.0.2.1 / tcp 8443 > {client} flags SA")).unwrap();
    assert_eq!(answer, "192.0.2.1:443 > 10.0.1.5:4000");
    // Nobody else gets these ports, and the server keeps them when it begins.
    let own = out(&mut nat, 0, "ip 10.0.1.20 > 203.0.113.5 / tcp 8443 > 80 flags S").unwrap();
    assert_eq!(port(&own), 443);
}

#[test]
fn static_translations_know_no_state() {
    let mut nat = nat("static 10.0.3.16/28 to 198.51.100.16/28\ntranslate 10.0.3.0/24 to 192.0.2.1");
    assert_eq!(
        out(&mut nat, 0, "ip 10.0.3.17 > 203.0.113.1 / udp 1 > 2").unwrap(),
        "198.51.100.17:1 > 203.0.113.1:2"
    );
    assert_eq!(
        come(&mut nat, 0, "ip 203.0.113.1 > 198.51.100.18 / tcp 1 > 2").unwrap(),
        "203.0.113.1:1 > 10.0.3.18:2"
    );
    assert_eq!(
        come(&mut nat, 0, "ip 203.0.113.1 > 198.51.100.18 / icmp echo id 5").unwrap(),
        "203.0.113.1 > 10.0.3.18 5"
    );
    assert_eq!(
        out(&mut nat, 0, "ip 10.0.3.18 > 203.0.113.1 / icmp reply id 5").unwrap(),
        "198.51.100.18 > 203.0.113.1 5"
    );
    assert_eq!(
        out(&mut nat, 0, "ip 10.0.3.18 > 203.0.113.1 proto 47 / payload 9").unwrap(),
        "198.51.100.18 > 203.0.113.1"
    );
    // Errors.
    let mut about =
        error(3, "203.0.113.1", "198.51.100.17", &packet("ip 198.51.100.17 > 203.0.113.1 / udp 1 > 2"));
    assert_eq!(go(&mut nat, 0, &mut about, false), Outcome::Translated);
    assert_eq!(ends(&about), "203.0.113.1 > 10.0.3.17 about 10.0.3.17:1 > 203.0.113.1:2");
    let mut about = error(3, "10.0.3.18", "203.0.113.1", &packet("ip 203.0.113.1 > 10.0.3.18 / tcp 1 > 2"));
    assert_eq!(go(&mut nat, 0, &mut about, true), Outcome::Translated);
    assert_eq!(ends(&about), "198.51.100.18 > 203.0.113.1 about 203.0.113.1:1 > 198.51.100.18:2");
    assert!(nat.is_empty());
    // Between two of them by the outside address, and from another inside host.
    assert_eq!(
        come(&mut nat, 0, "ip 10.0.3.17 > 198.51.100.18 / udp 1 > 2").unwrap(),
        "198.51.100.17:1 > 10.0.3.18:2"
    );
    let found = come(&mut nat, 0, "ip 10.0.3.99 > 198.51.100.18 / udp 1 > 2").unwrap();
    assert!(found.starts_with("192.0.2.1:") && found.ends_with(" > 10.0.3.18:2"), "{found}");
    let back = come(&mut nat, 0, &format!("ip 10.0.3.18 > 192.0.2.1 / udp 2 > {}", port(&found))).unwrap();
    assert_eq!(back, "198.51.100.18:2 > 10.0.3.99:1");
}

#[test]
fn others_pass_as_they_are() {
    let mut nat = nat(&format!("{HOME}\nexempt 10.0.1.0/24 to 10.9.0.0/16"));
    for line in ["ip 10.0.1.5 > 10.9.1.1 / udp 1 > 2", "ip 10.7.1.5 > 203.0.113.1 / udp 1 > 2"] {
        assert_eq!(go(&mut nat, 0, &mut packet(line), true), Outcome::Unchanged, "{line}");
    }
    assert_eq!(
        go(&mut nat, 0, &mut packet("ip 203.0.113.1 > 192.0.2.2 / udp 1 > 2"), false),
        Outcome::Unchanged
    );
    assert_eq!(
        go(&mut nat, 0, &mut packet("ip 10.0.1.5 > 192.0.2.1 / udp 1 > 22"), false),
        Outcome::Unchanged
    );
    assert!(nat.is_empty());
    // An outside address that is not the router's own has no other use.
    let mut pool = self::nat("translate 10.0.1.0/24 to 192.0.2.9");
    assert_eq!(come(&mut pool, 0, "ip 203.0.113.1 > 192.0.2.9 / udp 1 > 2"), Err(Cause::NoMapping));
}

#[test]
fn the_router_keeps_its_own_ports_if_they_are_free() {
    let mut nat = nat(HOME);
    assert_eq!(
        out(&mut nat, 0, "ip 192.0.2.1 > 203.0.113.1 / udp 5000 > 53").unwrap(),
        "192.0.2.1:5000 > 203.0.113.1:53"
    );
    assert_eq!(
        come(&mut nat, 0, "ip 203.0.113.1 > 192.0.2.1 / udp 53 > 5000").unwrap(),
        "203.0.113.1:53 > 192.0.2.1:5000"
    );
    // A port that a subscriber has: another one, and the answer finds back.
    let taken = port(&out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53").unwrap());
    let own = port(&out(&mut nat, 0, &format!("ip 192.0.2.1 > 203.0.113.1 / udp {taken} > 53")).unwrap());
    assert_ne!(own, taken);
    let answer = come(&mut nat, 0, &format!("ip 203.0.113.1 > 192.0.2.1 / udp 53 > {own}")).unwrap();
    assert_eq!(answer, format!("203.0.113.1:53 > 192.0.2.1:{taken}"));
    // Ports that no subscriber gets need nothing.
    let before = nat.len();
    assert_eq!(
        out(&mut nat, 0, "ip 192.0.2.1 > 203.0.113.1 / tcp 22 > 5000 flags SA").unwrap(),
        "192.0.2.1:22 > 203.0.113.1:5000"
    );
    assert_eq!(nat.len(), before);
}

#[test]
fn protocols_without_ports_have_one_inside_end_for_a_peer() {
    let mut nat = nat(HOME);
    assert_eq!(
        out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 proto 47 / payload 9").unwrap(),
        "192.0.2.1 > 203.0.113.1"
    );
    assert_eq!(
        come(&mut nat, 0, "ip 203.0.113.1 > 192.0.2.1 proto 47 / payload 9").unwrap(),
        "203.0.113.1 > 10.0.1.5"
    );
    assert_eq!(out(&mut nat, 0, "ip 10.0.1.6 > 203.0.113.1 proto 47 / payload 9"), Err(Cause::NoPort));
    assert_eq!(
        out(&mut nat, 0, "ip 10.0.1.6 > 203.0.113.2 proto 47 / payload 9").unwrap(),
        "192.0.2.1 > 203.0.113.2"
    );
    // SCTP keeps its ports.
    assert_eq!(
        out(&mut nat, 0, "ip 10.0.1.6 > 203.0.113.2 proto 132 / hex 0001000200000000").unwrap(),
        "192.0.2.1 > 203.0.113.2"
    );
    assert_eq!(nat.len(), 3);
}

#[test]
fn a_full_table_gives_up_what_is_not_agreed_on() {
    let mut nat = nat(&format!("{HOME}\nsessions 4\nforward tcp 80 to 10.0.1.20"));
    let outside = port(&out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags S").unwrap());
    come(&mut nat, 0, &format!("ip 203.0.113.1 > 192.0.2.1 / tcp 80 > {outside} flags SA")).unwrap();
    out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags A").unwrap();
    // A flood to a forward takes the place of itself.
    for n in 0..100 {
        come(&mut nat, S, &format!("ip 198.51.100.{n} > 192.0.2.1 / tcp 9 > 80 flags S")).unwrap();
        assert!(nat.len() <= 4);
    }
    let answer =
        come(&mut nat, S, &format!("ip 203.0.113.1 > 192.0.2.1 / tcp 80 > {outside} flags A")).unwrap();
    assert_eq!(answer, "203.0.113.1:80 > 10.0.1.5:4000");
    // If all are agreed on, there is no room.
    for n in 0..3 {
        let found = out(&mut nat, 2 * S, &format!("ip 10.0.1.6 > 203.0.113.{n} / udp 1 > 9")).unwrap();
        come(&mut nat, 2 * S, &format!("ip 203.0.113.{n} > 192.0.2.1 / udp 9 > {}", port(&found))).unwrap();
    }
    assert_eq!(out(&mut nat, 2 * S, "ip 10.0.1.7 > 203.0.113.1 / udp 1 > 9"), Err(Cause::Full));
    // Until their time has come.
    out(&mut nat, 303 * S, "ip 10.0.1.7 > 203.0.113.1 / udp 1 > 9").unwrap();
}

#[test]
fn split_hairpins_show_the_addresses_of_hosts_in_between() {
    let mut nat = nat(&format!("{HOME}\nforward tcp 80 to 10.0.1.20 port 8080"));
    nat.split_hairpins(true);
    let mut between = |line: &str| {
        let mut ip = packet(line);
        let mut ahead = Vec::new();
        nat.look_ahead([&ip[..]].into_iter(), false, &mut ahead);
        let Outcome::Hairpin(number) = nat.arriving(0, &mut ip, &ahead[0], false) else { panic!("{line}") };
        check(&ip);
        let seen = ends(&ip);
        assert_eq!(nat.leaving_inside(&mut ip, number), Outcome::Translated);
        check(&ip);
        assert_eq!(nat.leaving_inside(&mut ip, number), Outcome::Unchanged, "once");
        (seen, ends(&ip))
    };
    let (seen, left) = between("ip 10.0.1.5 > 192.0.2.1 / tcp 4000 > 80 flags S");
    assert_eq!(seen, "10.0.1.5:4000 > 10.0.1.20:8080");
    let client = port(&left);
    assert_eq!(left, format!("192.0.2.1:{client} > 10.0.1.20:8080"));
    let (seen, left) = between(&format!("ip 10.0.1.20 > 192.0.2.1 / tcp 8080 > {client} flags SA"));
    assert_eq!(
        (seen.as_str(), left.as_str()),
        ("10.0.1.20:8080 > 10.0.1.5:4000", "192.0.2.1:80 > 10.0.1.5:4000")
    );
    // Packets from outside are translated as a whole, and a number of nothing changes nothing.
    assert_eq!(
        come(&mut nat, 0, "ip 203.0.113.1 > 192.0.2.1 / tcp 9 > 80 flags S").unwrap(),
        "203.0.113.1:9 > 10.0.1.20:8080"
    );
    let mut ip = packet("ip 10.0.1.5 > 10.0.1.20 / tcp 4000 > 8080");
    assert_eq!(nat.leaving_inside(&mut ip, 77), Outcome::Unchanged);
}

#[test]
fn outsiders_have_no_inside_addresses() {
    let text = "translate 10.0.1.0/24 to 192.0.2.1\nstatic 10.0.3.9 to 192.0.2.9\nforward tcp 80 on 192.0.2.1 to 10.0.1.20\n\
                exempt 10.0.1.0/24 to 10.9.0.0/16";
    let mut nat = nat(text);
    let mut from_outside = |line: &str| {
        let mut ip = packet(line);
        let mut ahead = Vec::new();
        nat.look_ahead([&ip[..]].into_iter(), false, &mut ahead);
        let outcome = nat.arriving(0, &mut ip, &ahead[0], true);
        (outcome, nat.len())
    };
    for line in [
        "ip 10.0.1.5 > 192.0.2.1 / tcp 4000 > 80 flags S",
        "ip 10.0.3.9 > 192.0.2.1 / tcp 4000 > 80 flags S",
        "ip 203.0.113.1 > 10.0.1.5 / udp 1 > 161",
        "ip 203.0.113.1 > 10.0.3.9 / udp 1 > 161",
        "ip 10.0.1.5 > 203.0.113.1 / udp 1 > 161",
    ] {
        assert_eq!(from_outside(line), (Outcome::Drop(Cause::Spoofed), 0), "{line}");
    }
    for line in ["ip 10.9.1.1 > 10.0.1.5 / udp 1 > 161", "ip 203.0.113.1 > 10.7.1.5 / udp 1 > 161"] {
        assert_eq!(from_outside(line), (Outcome::Unchanged, 0), "{line}");
    }
}

#[test]
fn a_server_behind_a_forward_keeps_its_outside_port() {
    let mut nat = nat(
        "translate 10.0.1.0/24 to 192.0.2.1\nforward udp 5000 to 10.0.1.21 port 6000\nforward tcp 25 to 10.7.0.9",
    );
    // What it sends first has that port, and the answer comes in.
    assert_eq!(
        out(&mut nat, 0, "ip 10.0.1.21 > 203.0.113.1 / udp 6000 > 9000").unwrap(),
        "192.0.2.1:5000 > 203.0.113.1:9000"
    );
    let answer = "ip 203.0.113.1 > 192.0.2.1 / udp 9000 > 5000";
    assert_eq!(come(&mut nat, 0, answer).unwrap(), "203.0.113.1:9000 > 10.0.1.21:6000");
    // Also one that nothing translates.
    assert_eq!(
        out(&mut nat, 0, "ip 10.7.0.9 > 203.0.113.1 / tcp 25 > 9 flags SA").unwrap(),
        "192.0.2.1:25 > 203.0.113.1:9"
    );
    assert_eq!((nat.len(), nat.mappings()), (2, 0));
    // Two outside ports for one inside: the peer decides which of them it uses.
    let mut nat = self::nat(
        "forward udp 80 on 192.0.2.1 to 10.0.1.21\nforward udp 81 on 192.0.2.1 to 10.0.1.21 port 80",
    );
    for port in [80, 81, 80] {
        come(&mut nat, 0, &format!("ip 203.0.113.1 > 192.0.2.1 / udp 9 > {port}")).unwrap();
        let answer = out(&mut nat, 0, "ip 10.0.1.21 > 203.0.113.1 / udp 80 > 9").unwrap();
        assert_eq!(answer, format!("192.0.2.1:{port} > 203.0.113.1:9"));
        assert_eq!(nat.len(), 1);
    }
}

#[test]
fn forwards_have_half_of_the_sessions_at_most() {
    let mut nat = nat(&format!("{HOME}\nsessions 40\nforward udp 53 to 10.0.1.20"));
    for n in 0..100 {
        let query = format!("ip 198.51.100.{n} > 192.0.2.1 / udp 9 > 53");
        come(&mut nat, 0, &query).unwrap();
        out(&mut nat, 0, &format!("ip 10.0.1.20 > 198.51.100.{n} / udp 53 > 9")).unwrap();
        assert!(nat.len() <= 20);
    }
    for n in 0..20 {
        let found = out(&mut nat, 0, &format!("ip 10.0.1.5 > 203.0.113.{n} / udp 7 > 9")).unwrap();
        come(&mut nat, 0, &format!("ip 203.0.113.{n} > 192.0.2.1 / udp 9 > {}", port(&found))).unwrap();
    }
    assert_eq!(nat.len(), 40);
    // And they give way: answers of a server do not make them more than that.
    out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.77 / udp 7 > 9").unwrap();
    assert_eq!((nat.len(), nat.of_forwards), (40, 19));
}

#[test]
fn ports_of_programs_of_the_router_are_kept() {
    let mut nat = nat("translate 10.0.1.0/24 to 192.0.2.1 ports 2000-2009");
    nat.reserve_own((2000, 2007));
    for n in 0..2 {
        assert!(
            port(&out(&mut nat, 0, &format!("ip 10.0.1.{n} > 203.0.113.1 / udp 7 > 9")).unwrap()) >= 2008
        );
    }
    assert_eq!(out(&mut nat, 0, "ip 10.0.1.9 > 203.0.113.1 / udp 7 > 9"), Err(Cause::NoPort));
    assert_eq!(
        come(&mut nat, 0, "ip 203.0.113.1 > 192.0.2.1 / udp 9 > 2003").unwrap(),
        "203.0.113.1:9 > 192.0.2.1:2003"
    );
    // They stay so with other statements.
    nat.replace(policy("translate 10.0.1.0/24 to 192.0.2.1 ports 2000-2008"), &[address("192.0.2.1")], 1);
    assert_eq!(nat.len(), nat.sessions().filter(|s| s.outside.1 == 2008).count());
    assert_eq!(out(&mut nat, 0, "ip 10.0.1.9 > 203.0.113.1 / udp 7 > 9"), Err(Cause::NoPort));
}

#[test]
fn nobody_sends_from_outside_addresses_but_the_router() {
    let mut nat = nat("translate 10.0.1.0/24 to 192.0.2.1-192.0.2.4\nexempt 192.0.2.1 to 10.0.1.200");
    for source in ["192.0.2.2", "192.0.2.4"] {
        assert_eq!(
            out(&mut nat, 0, &format!("ip {source} > 203.0.113.1 / udp 2000 > 9")),
            Err(Cause::Spoofed)
        );
    }
    out(&mut nat, 0, "ip 192.0.2.1 > 203.0.113.1 / udp 2000 > 9").unwrap();
    assert_eq!(nat.len(), 1);
    // Reserved ports of the router stay as they are.
    nat.reserve_own((5000, 5003));
    assert_eq!(
        out(&mut nat, 0, "ip 192.0.2.1 > 203.0.113.1 / udp 5001 > 9").unwrap(),
        "192.0.2.1:5001 > 203.0.113.1:9"
    );
    assert_eq!(nat.len(), 1);
    // A neighbour outside with an address like those inside, by an exemption.
    let mut ip = packet("ip 10.0.1.200 > 192.0.2.1 / icmp echo id 5");
    let mut ahead = Vec::new();
    nat.look_ahead([&ip[..]].into_iter(), false, &mut ahead);
    assert_eq!(nat.arriving(0, &mut ip, &ahead[0], true), Outcome::Unchanged);
}

#[test]
fn sessions_that_a_server_begins_by_a_forward_count_for_it() {
    let mut nat = nat("translate 10.0.1.0/24 to 192.0.2.1 max-sessions 3\nforward tcp 25 to 10.0.1.20");
    for n in 0..3 {
        out(&mut nat, 0, &format!("ip 10.0.1.20 > 203.0.113.{n} / tcp 25 > 25 flags S")).unwrap();
    }
    assert_eq!(
        out(&mut nat, 0, "ip 10.0.1.20 > 203.0.113.9 / tcp 25 > 25 flags S"),
        Err(Cause::SubscriberLimit)
    );
    // Others begin what they like.
    come(&mut nat, 0, "ip 203.0.113.9 > 192.0.2.1 / tcp 9 > 25 flags S").unwrap();
    assert_eq!((nat.len(), nat.of_forwards), (4, 1));
    // They go on with other statements.
    let more = "translate 10.0.1.0/24 to 192.0.2.1-192.0.2.2 max-sessions 3\nforward tcp 25 on 192.0.2.1 to 10.0.1.20";
    assert_eq!(nat.replace(policy(more), &[address("192.0.2.1")], 1), 0);
    consistent(&nat);
    assert_eq!((nat.len(), nat.of_forwards, nat.subscribers().next().unwrap().sessions), (4, 1, 3));
    nat.reap(u64::MAX, 10_000);
    assert_eq!((nat.len(), nat.of_forwards, nat.subscribers().count()), (0, 0, 0));
}

#[test]
fn a_hairpin_that_is_tried_is_tried_to_its_end() {
    let mut nat = nat(&format!("{HOME}\nforward tcp 80 to 10.0.1.20 port 8080"));
    nat.split_hairpins(true);
    let mut ip = packet("ip 10.0.1.5 > 192.0.2.1 / tcp 4000 > 80 flags S");
    let Outcome::Hairpin(number) = nat.rehearse(0, &mut ip, false, false) else { panic!("a hairpin") };
    assert!(nat.is_empty());
    assert_eq!(nat.leaving_inside(&mut ip, number), Outcome::Translated);
    assert!(ends(&ip).starts_with("192.0.2.1:"), "{}", ends(&ip));
}
