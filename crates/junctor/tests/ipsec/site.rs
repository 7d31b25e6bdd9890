// SPDX-License-Identifier: MIT OR Apache-2.0
//! A host, Junctor as its gateway, and a Linux guest at the other end of Junctor's associations.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use testbed::process::Process;
use testbed::rig::{Cable, Namespace, wait_for};
use testbed::uml::Guest;

use crate::cases::{Case, HOST, In, Out};

pub const PATIENCE: Duration = Duration::from_secs(20);
const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");

/// Ethernet addresses: the host's, Junctor's towards it, Junctor's towards Linux, Linux'.
const MACS: [&str; 4] = ["02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03", "02:00:00:00:00:04"];

/// What the guest does: it echoes UDP, takes ESP by UDP, and runs the scripts that the test puts into a directory.
const SCRIPT: &str = r#"
mkdir -p /var/tmp/lib; ln -s /usr/lib/uml/modules /var/tmp/lib/modules
printf '#!/bin/sh\nexec modprobe -q -d /var/tmp "$@"\n' > /run/modprobe; chmod +x /run/modprobe
echo /run/modprobe > /proc/sys/kernel/modprobe
for module in ipv6 xfrm_user esp4 esp6; do /run/modprobe $module; done
ip link set vec0 address LINUX_MAC; ip link set vec0 up
ip addr add 192.0.2.2/24 dev vec0; ip addr add 10.2.0.1/32 dev lo
ip addr add 2001:db8:9::2/64 dev vec0 nodad; ip addr add 2001:db8:2::1/128 dev lo nodad
ip neigh add 192.0.2.1 lladdr OUR_MAC dev vec0; ip neigh add 2001:db8:9::1 lladdr OUR_MAC dev vec0
ip route add 10.1.0.0/16 via 192.0.2.1; ip route add 2001:db8:1::/64 via 2001:db8:9::1
echo '
import select, socket
addresses = [(2, "10.2.0.1"), (2, "192.0.2.2"), (10, "2001:db8:2::1"), (10, "2001:db8:9::2")]
echoes, takers = [], []
for family, address in addresses:
    s = socket.socket(family, 2); s.bind((address, 7)); echoes.append(s)
    s = socket.socket(family, 2); s.bind((address, 4500)); s.setsockopt(17, 100, 2); takers.append(s)
print("the servers are up", flush=True)
while True:
    for s in select.select(echoes, [], [])[0]:
        data, sender = s.recvfrom(9000)
        s.sendto(data, sender)
' > /run/servers.py
python3 /run/servers.py &
n=1
while :; do
    while [ ! -e DIRECTORY/$n ]; do sleep 0.05; done
    echo "<$n>"
    sh DIRECTORY/$n 2>&1
    echo "</$n $?>"
    n=$((n + 1))
done
"#;

/// `way` and `back` are what a test does to packets from and to Linux: 0 nothing, 1 sends each twice, 2 marks congestion on IPv4, 3 changes the
/// traffic class of IPv4, 4 flips a bit of the last byte. `whole` reassembles what the host sends, if it is 1.
const ROUTER: &str = "
elementclass Port { $device, $own, $peer |
    FromDevice($device, METHOD AF_PACKET, PROMISC true) -> c :: Classifier(12/0800, 12/86dd, -);
    c[0] -> Strip(14) -> CheckIPHeader -> [0]output;
    c[1] -> Strip(14) -> CheckIP6Header -> [1]output;
    c[2] -> Discard;
    input[0] -> EtherEncap(0x0800, $own, $peer) -> q :: Queue -> ToDevice($device, METHOD AF_PACKET);
    input[1] -> EtherEncap(0x86dd, $own, $peer) -> q;
}
elementclass Tamper {
    input -> s :: Switch;
    s[0] -> output;
    s[1] -> t :: Tee -> output; t[1] -> output;
    s[2] -> StoreData(1, \\<03>, MASK \\<03>) -> SetIPChecksum -> output;
    s[3] -> StoreData(1, \\<28>, MASK \\<fc>) -> SetIPChecksum -> output;
}
elementclass Families { input -> c :: Classifier(0/40%f0, 0/60%f0, -); c[0] -> [0]output; c[1] -> [1]output; c[2] -> Discard; }

db :: IPsecDatabase;
host :: Port(d0, MAC1, MAC0);
linux :: Port(t0, MAC2, MAC3);

host[0] -> whole :: Switch;
whole[0] -> enc :: IPsecEncrypt(db);
whole[1] -> IPReassembler -> enc;
host[1] -> enc;
enc[0] -> back :: Tamper -> out :: Families;
dum :: IPsecDummies(db) -> back;
enc[1] -> out;
out[0] -> f4 :: IPFragmenter(1500) -> sent :: ToDump(SENT, ENCAP IP, UNBUFFERED true) -> [0]linux;
out[1] -> IP6Fragmenter(1500, LOCAL true) -> [1]linux;
enc[2] -> big :: Families;
big[0] -> ICMPError(10.1.0.1, unreachable, needfrag, PMTU_ANNO true, SET_FIX_ANNO false) -> [0]host;
big[1] -> ICMP6Error(2001:db8:1::1, toobig, PMTU_ANNO true) -> [1]host;

linux[0] -> got :: ToDump(GOT, ENCAP IP, UNBUFFERED true) -> joined4 :: IPReassembler
    -> esp4 :: IPClassifier(ip proto 50 or dst udp port 4500, -);
linux[1] -> joined6 :: IP6Reassembler -> esp6 :: Classifier(6/32, 6/11 42/1194, -);
esp4[0] -> way :: Tamper -> dec :: IPsecDecrypt(db) -> in :: Families;
esp6[0] -> way; esp6[1] -> way;
esp4[1] -> chk :: IPsecCheck(db) -> in;
esp6[2] -> chk;
in[0] -> opened :: ToDump(OPENED, ENCAP IP, UNBUFFERED true) -> IPFragmenter(1500) -> [0]host;
in[1] -> IP6Fragmenter(1500, LOCAL true) -> [1]host;
";

/// All of it. It ends with this.
pub struct Site {
    /// The router's IPsecDatabase.
    database: &'static str,
    pub host: Namespace,
    _dut: Namespace,
    guest: Guest,
    router: Process,
    control: BufReader<UnixStream>,
    files: tempfile::TempDir,
    /// Scripts that the guest has got.
    scripts: usize,
    /// The host's socket of each family.
    sockets: [UdpSocket; 2],
}

/// What an association has carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    pub bytes: u64,
    pub packets: u64,
}

/// A ready router in place of that.
const READY: &str = "
r :: DualRouter(d0 10.1.0.1/24 2001:db8:1::1/64, t0 192.0.2.1/24 2001:db8:9::1/64, METHOD AF_PACKET, ADVERTISE false,
    ROUTE 10.2.0.0/16 192.0.2.2, ROUTE 2001:db8:2::/64 2001:db8:9::2, FRAGMENT WHEN, IPSEC true);
";

impl Site {
    pub fn new() -> Site {
        Site::of(ROUTER, "db")
    }

    /// A ready router, which fragments IPv4 packets `before` or `after` it protects them.
    pub fn ready(when: &str) -> Site {
        Site::of(&READY.replace("WHEN", when), "r/ipsec")
    }

    /// A router with this database.
    fn of(text: &str, database: &'static str) -> Site {
        let (host, dut) = (Namespace::new("host").unwrap(), Namespace::new("dut").unwrap());
        let files = tempfile::tempdir().unwrap();
        let at = |name: &str| files.path().join(name).display().to_string();
        std::fs::create_dir(at("scripts")).unwrap();
        let script = SCRIPT.replace("LINUX_MAC", MACS[3]).replace("OUR_MAC", MACS[2]);
        let mut guest = Guest::start(&dut, &["t0"], &script.replace("DIRECTORY", &at("scripts"))).unwrap();
        Cable::default().lay(&host, "a0", &dut, "d0").unwrap();
        for device in ["all", "a0"] {
            host.sysctl(&format!("net/ipv6/conf/{device}/disable_ipv6"), "0").unwrap();
        }
        host.ip(&format!("link set a0 address {}", MACS[0])).unwrap();
        for (address, gateway) in [("10.1.0.2/24", "10.1.0.1"), ("2001:db8:1::2/64", "2001:db8:1::1")] {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            host.ip(&format!("addr add {address} dev a0{nodad}")).unwrap();
            host.ip(&format!("neigh add {gateway} lladdr {} dev a0", MACS[1])).unwrap();
            host.ip(&format!("route add default via {gateway}")).unwrap();
        }
        for (device, mac) in [("d0", MACS[1]), ("t0", MACS[2])] {
            dut.ip(&format!("link set {device} address {mac}")).unwrap();
        }
        let mut text = text
            .replace("SENT", &at("sent.pcap"))
            .replace("GOT", &at("got.pcap"))
            .replace("OPENED", &at("opened.pcap"));
        for (n, mac) in MACS.iter().enumerate() {
            text = text.replace(&format!("MAC{n}"), mac);
        }
        std::fs::write(at("router.click"), text).unwrap();
        let socket = at("router.sock");
        let mut router = dut.spawn(&[JUNCTOR, "run", "--control", &socket, &at("router.click")]).unwrap();
        wait_for("the router", PATIENCE, || UnixStream::connect(&socket).is_ok() || router.ended().is_some())
            .unwrap();
        assert!(router.ended().is_none(), "{}", router.stderr());
        let mut control = BufReader::new(UnixStream::connect(&socket).unwrap());
        control.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
        control.read_line(&mut String::new()).unwrap();
        guest.wait_for("the servers are up", PATIENCE).unwrap();
        // These do not forbid fragments.
        host.sysctl("net/ipv4/ip_no_pmtu_disc", "1").unwrap();
        let sockets = HOST.map(|address| {
            let socket = host.enter(|| UdpSocket::bind((address, 0))).unwrap().unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket
        });
        host.sysctl("net/ipv4/ip_no_pmtu_disc", "0").unwrap();
        Site { database, host, _dut: dut, guest, router, control, files, scripts: 0, sockets }
    }

    pub fn path(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    /// Sends a command to Junctor, and returns its answer's first line.
    fn ask(&mut self, command: &str) -> String {
        writeln!(self.control.get_ref(), "{command}").unwrap();
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.control.read_line(&mut line).unwrap() > 0, "{}", self.router.stderr());
            assert!(line.starts_with("200"), "{command}: {line}");
            if line.as_bytes()[3] == b' ' {
                return line;
            }
        }
    }

    pub fn write(&mut self, handler: &str, value: &str) {
        self.ask(&format!("WRITE {handler} {value}"));
    }

    pub fn read(&mut self, handler: &str) -> String {
        self.ask(&format!("READ {handler}"));
        let mut line = String::new();
        self.control.read_line(&mut line).unwrap();
        let len = line.trim().strip_prefix("DATA ").unwrap().parse().unwrap();
        let mut data = vec![0; len];
        self.control.read_exact(&mut data).unwrap();
        String::from_utf8(data).unwrap()
    }

    /// How many packets an element has dropped for a reason.
    pub fn drops(&mut self, element: &str, reason: &str) -> u64 {
        let text = self.read(&format!("{element}.drops"));
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(reason));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
    }

    /// Runs a script in the guest. Returns what it says, and whether it ended well.
    pub fn attempt(&mut self, script: &str) -> (String, bool) {
        self.scripts += 1;
        let n = self.scripts;
        let path = self.path(&format!("scripts/{n}"));
        std::fs::write(path.clone() + ".new", script).unwrap();
        std::fs::rename(path.clone() + ".new", path).unwrap();
        let begin = format!("<{n}>");
        self.guest.wait_for(&begin, PATIENCE).unwrap();
        let end = format!("</{n} ");
        if let Err(why) = self.guest.wait_for(&end, PATIENCE) {
            panic!("{why}: {script}\n{}", self.guest.said());
        }
        let said = self.guest.said().replace('\r', "");
        let text = said.rsplit_once(&begin).map_or(&*said, |(_, text)| text);
        let (text, code) = text.split_once(&end).unwrap();
        (text.to_owned(), code.starts_with("0>"))
    }

    /// The same for a script that ends well.
    pub fn in_linux(&mut self, script: &str) -> String {
        let (text, is_well) = self.attempt(&format!("set -e\n{script}"));
        if !is_well {
            let ours = format!("{}\n{}", self.read(&format!("{}.sas", self.database)), self.read("drops"));
            let (theirs, _) =
                self.attempt("ip -s xfrm state; grep -v '\t0$' /proc/net/xfrm_stat /proc/net/snmp");
            panic!("{script}\n{text}\nJunctor: {ours}\nLinux: {theirs}");
        }
        text
    }

    /// Gives Junctor the associations and policies of a case, and nothing else.
    pub fn set_ours(&mut self, case: &Case<'_>) {
        let database = self.database;
        self.write(&format!("{database}.flush_sas"), "");
        self.write(&format!("{database}.flush_policies"), "");
        for way in [Out, In] {
            self.write(&format!("{database}.add_sa"), &case.our_sa(way));
            self.write(&format!("{database}.add_policy"), &case.our_policy(way));
        }
    }

    /// Gives both sides the associations and policies of a case, and nothing else. Linux runs a script afterwards.
    pub fn set(&mut self, case: &Case<'_>, script: &str) -> String {
        self.set_ours(case);
        self.in_linux(&(case.their_databases() + script))
    }

    /// Sends so many bytes by UDP from the host, and gets them back.
    pub fn echo(&mut self, case: &Case<'_>, len: usize) {
        let socket = &self.sockets[case.shape.inner as usize];
        let data: Vec<u8> = (0..len).map(|at| at as u8).collect();
        socket.send_to(&data, (case.target(), 7)).unwrap();
        let mut buffer = [0; 9000];
        match socket.recv(&mut buffer) {
            Ok(got) => assert_eq!(buffer[..got], data, "{}", case.name()),
            Err(why) => {
                let ours =
                    format!("{}\n{}", self.read(&format!("{}.sas", self.database)), self.read("drops"));
                let (theirs, _) = self.attempt("ip -s xfrm state; cat /proc/net/xfrm_stat");
                panic!("{}, {len} bytes by UDP: {why}\nJunctor: {ours}\nLinux: {theirs}", case.name());
            }
        }
    }

    /// Sends so many bytes by UDP from the host.
    pub fn send(&mut self, case: &Case<'_>, len: usize) {
        self.sockets[case.shape.inner as usize].send_to(&vec![0; len], (case.target(), 7)).unwrap();
    }

    /// A counter of Linux' XFRM.
    pub fn xfrm_stat(&mut self, name: &str) -> u64 {
        let text = self.in_linux("cat /proc/net/xfrm_stat");
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or_else(|| panic!("{text}"))
    }

    /// The IPv4 packets in a capture of the router's.
    pub fn captured(&self, name: &str) -> Vec<Vec<u8>> {
        let bytes = std::fs::read(self.path(name)).unwrap();
        let mut rest = &bytes[24..];
        let mut packets = Vec::new();
        while let Some(len) = rest.get(8..12) {
            let len = u32::from_le_bytes(len.try_into().unwrap()) as usize;
            let Some(packet) = rest.get(16..16 + len) else { break };
            packets.push(packet.to_vec());
            rest = &rest[16 + len..];
        }
        packets
    }

    /// A ping from the host. Returns what it says, and whether an answer came.
    pub fn ping(&self, arguments: &str) -> (String, bool) {
        let command: Vec<&str> = ["ping", "-n"].into_iter().chain(arguments.split(' ')).collect();
        let output = self.host.spawn(&command).unwrap().finish(PATIENCE).unwrap();
        (output.stdout + &output.stderr, output.status.success())
    }

    /// What both sides say that an association has carried.
    pub fn carried(&mut self, case: &Case<'_>, theirs: &str) -> [[Carried; 2]; 2] {
        [Out, In].map(|way| {
            let id = case.id(way);
            let ours = self.read(&format!("{}.sas {id}", self.database));
            let number = |name: &str| {
                let words: Vec<&str> = ours.split_whitespace().collect();
                let at = words.iter().rposition(|word| *word == name).unwrap();
                words[at + 1].parse().unwrap()
            };
            let ours = Carried { bytes: number("bytes"), packets: number("packets") };
            let spi = format!("{:#010x}", case.spi + u32::from(way == In));
            let own = theirs.split("\nsrc ").find(|text| text.contains(&format!("spi {spi}")));
            let current = own.and_then(|text| text.split_once("lifetime current:"));
            let (_, current) = current.unwrap_or_else(|| panic!("{spi} in {theirs}"));
            let mut numbers = current.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
            let theirs = Carried { bytes: numbers.next().unwrap(), packets: numbers.next().unwrap() };
            [ours, theirs]
        })
    }
}
