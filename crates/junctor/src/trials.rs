// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test`: the options of the tester. What they ask for is a [`trials::Test`].

mod campaign;
mod common;
mod others;
mod procedures;

use trials::{Failure, Test, device};

use crate::{exit, outcome};

/// Test a device: how much it forwards, how late, and what it does to the frames.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Rfc2544(procedures::Rfc2544),
    Rfc2889(procedures::Rfc2889),
    Rfc5180(Box<procedures::Rfc5180>),
    Rfc8219(procedures::Rfc8219),
    Rfc9004(procedures::Rfc9004),
    Mlr(procedures::Mlr),
    Soak(procedures::Soak),
    Trial(others::Trial),
    Compare(others::Compare),
    Campaign(campaign::Args),
    Agent(others::Agent),
    Gather(others::Gather),
    /// Start a device's command, for the tester.
    #[command(hide = true)]
    StartDevice {
        /// The tester's process.
        tester: u32,
        /// The command, for a shell.
        line: String,
    },
    /// Run a device's command, as the first of its processes.
    #[command(hide = true)]
    RunDevice {
        /// The command, for a shell.
        line: String,
    },
}

/// Runs the command.
pub(crate) fn main(args: Args) -> u8 {
    let test = match args.command {
        Command::Rfc2544(args) => Test::Rfc2544(args.into()),
        Command::Rfc2889(args) => Test::Rfc2889(args.into()),
        Command::Rfc5180(args) => Test::Rfc5180((*args).into()),
        Command::Rfc8219(args) => Test::Rfc8219(args.into()),
        Command::Rfc9004(args) => Test::Rfc9004(args.into()),
        Command::Mlr(args) => Test::Mlr(args.into()),
        Command::Soak(args) => Test::Soak(args.into()),
        Command::Trial(args) => Test::Trial(args.into()),
        Command::Compare(args) => Test::Compare(args.into()),
        Command::Campaign(args) => match args.try_into() {
            Ok(campaign) => Test::Campaign(campaign),
            Err(why) => return outcome::usage(why),
        },
        Command::Agent(args) => match args.try_into() {
            Ok(duty) => Test::Agent(duty),
            Err(why) => return outcome::fail(why),
        },
        Command::Gather(args) => Test::Gather(args.into()),
        Command::StartDevice { tester, line } => return of_device(device::start_command(tester, &line)),
        Command::RunDevice { line } => return of_device(device::run_command(&line)),
    };
    trials::run(&test).map_or_else(|why| tell(&why), |()| exit::SUCCESS)
}

/// The status of a device's command.
fn of_device(status: Result<u8, trials::Error>) -> u8 {
    status.unwrap_or_else(outcome::fail)
}

/// Says why a test did not succeed; returns the exit status.
fn tell(failure: &Failure) -> u8 {
    for cause in failure.causes() {
        outcome::fail(cause);
    }
    match failure {
        Failure::Usage(_) => exit::USAGE,
        Failure::Error(_) | Failure::Failed(_) | Failure::NotBetter => exit::FAILURE,
        // As shells have it.
        Failure::Interrupted { signal, .. } => u8::try_from(128 + signal).unwrap_or(u8::MAX),
    }
}

/// What is said of devices in the help of each test.
const DEVICES: &str = "Devices:
  self:CONF        a configuration in this process, on ports in memory; its lines '// bench: PORT KEY=VALUE ...'
                   say what to send
  kernel-router    the kernel's IP forwarding, kernel-bridge its bridge, in a rig: network namespaces and virtual
                   cables that are built for the test and go with it (needs root); kernel-bridge:4 has four ports, of
                   which each sends to the next, or with --mesh to all others
  passthrough      a plain user-space forwarder in such a rig: two packet sockets, two system calls for each frame
  command:LINE     what a shell makes of LINE in such a rig; {IF1} {IF2} are the device's interfaces, {MAC1} {MAC2}
                   their Ethernet addresses, {ADDR1} {ADDR2} the addresses a router is to have there, {NET1} {NET2}
                   the hosts' networks, {CORES} the device's cores; also in the environment (JUNCTOR_IF1 ...)
  ports:IF1,IF2    what is behind interfaces of this machine, which must have no addresses. A router there has
                   198.18.0.1/24 and 198.19.0.1/24 (2001:2:0:1::1/64 and 2001:2:0:8001::1/64), unless --flow says more
  agents:A/IF1,B/IF2
                   what is between interfaces of other machines, on each of which an agent runs (junctor test agent): A and B
                   are [NAME=]ADDRESS:PORT of these, --key names the file of their key. Interfaces, flows and routers as with
                   ports:, with NAME, or ADDRESS:PORT/IF, as the port's name
  cable, veth      two ports of the tester's joined, in memory or by a virtual cable

A flow's words: ether=MAC (the device's), via=ADDRESS (who is asked for it), src=PREFIX, dst=PREFIX[,PREFIX], flows=N;
for bridges from=MAC to=MAC stations=N.
  --flow 'eth1 via=10.0.0.1 src=10.0.0.128/25 dst=10.0.1.128/25 flows=100'

Drivers: af_xdp and af_packet send what the tester writes, frame by frame. With bpf the kernel generates the frames by the same
schedule (BPF_PROG_RUN on live frames: Linux 5.18, CAP_BPF and CAP_NET_ADMIN): several times as many, of up to 3372 bytes,
IPv4 or IPv6 at one port but not both. It takes a core for each port that sends; where there are too few, the tester's, and
then one direction (--one-way) is paced best. The driver of the interface must send what XDP programs redirect; a virtual cable
does when its other end has 'ethtool -K OTHER_END gro on'.

Before each test the tester is measured on a cable of the same kind, driven likewise.
";

/// The end of a test's help: what is its own, and what it shares with the others.
fn help(own: &str) -> String {
    format!("{own}\n\n{DEVICES}")
}
