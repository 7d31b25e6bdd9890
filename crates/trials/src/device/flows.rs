// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is sent where: the networks on both sides of a device, and what `--flow` changes.

use std::net::IpAddr;

use wire::MacAddr;

use harness::Pattern;

use crate::Error;

/// A port's name and what it sends; in the order in which ports are numbered.
pub(super) type Flows = Vec<(String, Pattern)>;

/// A network at one side of a device.
#[derive(Clone, Debug)]
pub(super) struct Network {
    /// Hosts that send and receive.
    pub(super) hosts: String,
    /// The device's address there, with the length of the network's prefix.
    pub(super) device: String,
}

/// The networks of a rig with so many ports, of those set aside for measurements (RFC 2544, appendix C.2.2; RFC 5180, section 8, as
/// corrected by erratum 1752): in turn from one half of them and from the other (RFC 5180 5.2.1).
pub(super) fn networks(ipv6: bool, ports: usize) -> Vec<Network> {
    let four = |port: usize| {
        let net = format!("198.{}.{}", 18 + port % 2, port / 2);
        Network { hosts: format!("{net}.128/25"), device: format!("{net}.1/24") }
    };
    let six = |port: usize| {
        let net = format!("2001:2:0:{:x}", 1 + port / 2 + 0x8000 * (port % 2));
        Network { hosts: format!("{net}:1::/80"), device: format!("{net}::1/64") }
    };
    (0..ports).map(|port| if ipv6 { six(port) } else { four(port) }).collect()
}

/// An address without the length of its prefix.
pub(super) fn address(with_length: &str) -> Option<IpAddr> {
    with_length.split('/').next()?.parse().ok()
}

/// `--flow`: a port, and what it sends.
#[derive(Clone, Debug)]
pub struct FlowLine {
    port: String,
    words: String,
    /// Who is to be asked for the device's Ethernet address.
    via: Option<IpAddr>,
}

impl FlowLine {
    /// Reads `PORT KEY=VALUE ...`.
    pub fn parse(text: &str) -> Result<FlowLine, String> {
        let mut words = text.split_ascii_whitespace();
        let port = words.next().ok_or("expected 'PORT KEY=VALUE ...'")?.to_owned();
        let mut line = FlowLine { port, words: String::new(), via: None };
        for word in words {
            if let Some(address) = word.strip_prefix("via=") {
                line.via = Some(address.parse().map_err(|_| format!("via={address} is no IP address"))?);
            } else {
                line.words += " ";
                line.words += word;
            }
        }
        // Whether both prefixes are of one family is checked later, together with what is known of the port.
        for word in line.words.split_ascii_whitespace() {
            let checked = Pattern::gather(&format!("// bench: {} {word}", line.port));
            if checked.is_err_and(|why| why.to_string().starts_with("cannot use")) {
                return Err(format!("'{word}' is no word of a flow, or its value cannot be"));
            }
        }
        Ok(line)
    }

    /// Whether a port is among these.
    pub(super) fn names(flows: &[FlowLine], port: &str) -> bool {
        flows.iter().any(|flow| flow.port == port)
    }

    /// Whether one of these says which Ethernet addresses a port sends to.
    pub(super) fn is_addressed(flows: &[FlowLine], port: &str) -> bool {
        let mut words =
            flows.iter().filter(|flow| flow.port == port).flat_map(|f| f.words.split_ascii_whitespace());
        words.any(|word| word.starts_with("ether=") || word.starts_with("to="))
    }
}

/// Adds what was asked for to what a configuration says of its devices.
pub(super) fn amended(text: &str, flows: &[FlowLine]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for flow in flows {
        let of_port = |line: &&mut String| {
            let words = line.trim().strip_prefix("// bench:").map(str::split_ascii_whitespace);
            words.and_then(|mut words| words.next()).is_some_and(|port| port == flow.port)
        };
        match lines.iter_mut().find(of_port) {
            Some(line) => line.push_str(&flow.words),
            None => lines.push(format!("// bench: {}{}", flow.port, flow.words)),
        }
    }
    lines.join("\n")
}

/// The flows of these ports: what is known of each, and what was asked for.
pub(super) fn of_ports(known: &[(String, String)], flows: &[FlowLine]) -> Result<Flows, Error> {
    if let Some(stray) = flows.iter().find(|flow| known.iter().all(|(port, _)| *port != flow.port)) {
        let ports: Vec<&str> = known.iter().map(|(port, _)| port.as_str()).collect();
        return Err(Error::Setting(format!(
            "--flow '{}{}': the ports are {}",
            stray.port,
            stray.words,
            ports.join(", ")
        )));
    }
    // The length is what IPv6 needs elsewhere; the tester's frames have lengths of their own.
    let line = |(port, words): &(String, String)| format!("// bench: {port} length=62 {words}");
    let text: Vec<String> = known.iter().map(line).collect();
    let mut gathered = Pattern::gather(&amended(&text.join("\n"), flows))?;
    Ok(known.iter().filter_map(|(port, _)| gathered.remove_entry(port)).collect())
}

/// What is known of the ports of a router: its Ethernet addresses there. Each port's hosts send to those behind the next.
pub(super) fn routed(ports: &[&str], macs: &[MacAddr], ipv6: bool) -> Vec<(String, String)> {
    let networks = networks(ipv6, ports.len());
    let line = |(here, (port, mac)): (usize, (&&str, &MacAddr))| {
        let (src, dst) = (&networks[here].hosts, &networks[(here + 1) % ports.len()].hosts);
        ((*port).to_owned(), format!("ether={mac} src={src} dst={dst} flows=256"))
    };
    ports.iter().zip(macs).enumerate().map(line).collect()
}

/// What is known of the ports of a bridge: the hosts behind them. Those of each port send to those behind the next.
pub(super) fn bridged(ports: &[&str], ipv6: bool) -> Vec<(String, String)> {
    let networks = networks(ipv6, ports.len());
    let station = |port: usize| format!("02:00:00:{:02x}:00:00", port + 1);
    let line = |(here, port): (usize, &&str)| {
        let there = (here + 1) % ports.len();
        let (src, dst) = (&networks[here].hosts, &networks[there].hosts);
        let words = format!("from={} to={} src={src} dst={dst} flows=256", station(here), station(there));
        ((*port).to_owned(), words)
    };
    ports.iter().enumerate().map(line).collect()
}

/// Whom to ask for the device's Ethernet address at a port of this name, unless it was given.
pub(super) fn gateway(port: &str, flows: &[FlowLine], usual: Option<IpAddr>) -> Option<IpAddr> {
    let via = flows.iter().filter(|flow| flow.port == port).find_map(|flow| flow.via);
    via.or_else(|| usual.filter(|_| !FlowLine::is_addressed(flows, port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_read() {
        let flow = FlowLine::parse("eth1 src=10.0.0.0/24 via=10.0.0.1 flows=3").expect("a flow");
        assert_eq!((flow.port.as_str(), flow.words.as_str()), ("eth1", " src=10.0.0.0/24 flows=3"));
        assert_eq!(gateway("eth1", &[flow], None), "10.0.0.1".parse().ok());
        for (bad, what) in [
            ("", "PORT KEY=VALUE"),
            ("eth1 via=x", "via=x is no IP address"),
            ("eth1 flows=0", "'flows=0' is no word of a flow"),
            ("eth1 10.0.0.0/24", "'10.0.0.0/24' is no word of a flow"),
        ] {
            assert!(FlowLine::parse(bad).is_err_and(|why| why.to_string().contains(what)), "{bad}");
        }
    }

    #[test]
    fn what_is_asked_for_comes_on_top_of_what_is_known() {
        let lines = |texts: &[&str]| -> Vec<FlowLine> {
            texts.iter().map(|text| FlowLine::parse(text).expect("a flow")).collect()
        };
        let known = bridged(&["t1", "t2"], false);
        let flows = of_ports(&known, &lines(&["t2 flows=5", "t2 to=02:00:00:00:00:09"])).expect("flows");
        let [(_, first), (_, second)] = &flows[..] else { panic!("two ports") };
        assert_eq!((first.test_flows().len(), second.test_flows().len()), (256, 5));
        assert_eq!(second.test_flows()[0].dst_mac.to_string(), "02:00:00:00:00:09");
        assert!(second.test_flows().iter().all(|flow| first.is_home_of(flow.dst)));
        let stray = of_ports(&known, &lines(&["eth1 flows=5"]));
        assert!(stray.is_err_and(|why| why.to_string().contains("the ports are t1, t2")));
        let mixed = of_ports(&known, &lines(&["t1 src=2001:db8::/64"]));
        assert!(mixed.is_err_and(|why| why.to_string().contains("of one family")));
        assert_eq!(
            amended("a\n// bench: x src=1", &lines(&["x flows=2", "y"])),
            "a\n// bench: x src=1 flows=2\n// bench: y"
        );
        // A user who gives an Ethernet address wants nobody asked.
        assert_eq!(gateway("x", &lines(&["x ether=02:00:00:00:00:09"]), "10.0.0.1".parse().ok()), None);
        assert_eq!(gateway("y", &lines(&["x flows=1"]), "10.0.0.1".parse().ok()), "10.0.0.1".parse().ok());
    }

    #[test]
    fn hosts_are_not_the_device() {
        for ipv6 in [false, true] {
            let known = routed(&["t1", "t2", "t3"], &[MacAddr([2; 6]); 3], ipv6);
            let flows = of_ports(&known, &[]).expect("flows");
            for (port, network) in networks(ipv6, 3).iter().enumerate() {
                let device = address(&network.device).expect("an address");
                assert!(flows.iter().all(|(_, pattern)| !pattern.is_home_of(device)), "{device}");
                let (own, next) = (&flows[port].1, &flows[(port + 1) % 3].1);
                let sent = own.test_flows();
                assert!(sent.iter().all(|flow| own.is_home_of(flow.src) && next.is_home_of(flow.dst)));
            }
        }
    }
}
