// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test agent` and `junctor test gather`: counters of the machines that take part in a test, with the times at which they were read.
//!
//! An agent runs on each machine (generator, device, sink) and tells controllers what they ask. It answers only holders of its key
//! ([`channel`]).

mod channel;
mod counters;
mod gather;

use std::io::{self, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::cli;
use channel::{Channel, Key};
use counters::{Counters, Ticks};

pub(super) use gather::{Gather, main as gather};

/// What these processors of this machine did until now; nothing if they are none of its.
pub(super) fn processor_ticks(numbers: &[usize]) -> Option<Ticks> {
    Ticks::of(numbers)
}

/// An agent hangs up on a controller that says nothing for so long.
const IDLE: Duration = Duration::from_secs(600);
/// Connections at a time.
const PLACES: usize = 16;

/// Tell a controller what this machine counts, until stopped.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "An agent tells packet counters of interfaces, processor time, interrupts and softirqs, read from /proc when asked, with the time. It
answers only who has the same key, and encrypts what it says (Noise NNpsk0).

Examples:
  junctor test agent --new-key agents.key        make a key; copy the file to all machines
  junctor test agent --key agents.key --listen 10.0.0.2:7001
  junctor test gather --key agents.key dut=10.0.0.2:7001 sink=10.0.0.3:7001 --time 10"
)]
pub(crate) struct Args {
    /// File with the key that controller and agents share.
    #[arg(long, value_name = "FILE", required_unless_present = "new_key")]
    key: Option<PathBuf>,
    /// Make a key, write it into this file, and end.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "listen"])]
    new_key: Option<PathBuf>,
    /// Address and port to be called at; with port 0 a free one, which is printed.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7001")]
    listen: String,
}

/// What a controller may ask.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Ask {
    /// Who are you?
    Hello,
    /// What have you counted?
    Counters,
}

/// Who an agent is.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Hello {
    version: String,
    machine: serde_json::Value,
}

/// Runs the agent.
pub(super) fn main(args: &Args) -> u8 {
    match run(args) {
        Ok(()) => crate::exit::SUCCESS,
        Err(why) => cli::fail(why),
    }
}

fn run(args: &Args) -> Result<(), String> {
    if let Some(path) = &args.new_key {
        return Key::make(path);
    }
    let Some(path) = &args.key else { return Err("--key names the file of the key".into()) };
    let key = Key::read(path)?;
    let listen =
        |why: io::Error| format!("cannot listen on {}: {why}; --listen names address and port", args.listen);
    let listener = TcpListener::bind(&args.listen).map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    // Whoever starts an agent on a free port waits for this line.
    println!("listening on {address}");
    io::stdout().flush().map_err(|why| why.to_string())?;
    let began = Instant::now();
    let serving = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        loop {
            let (stream, who) = match listener.accept() {
                Ok(caller) => caller,
                Err(why) if why.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(why) => return Err(listen(why)),
            };
            // Who finds all places taken is hung up on.
            if serving.fetch_add(1, Relaxed) >= PLACES {
                serving.fetch_sub(1, Relaxed);
                eprintln!("{who}: {PLACES} others are served already");
                continue;
            }
            let (key, serving) = (&key, &serving);
            scope.spawn(move || {
                if let Err(why) = serve(stream, key, began) {
                    eprintln!("{who}: {why}");
                }
                serving.fetch_sub(1, Relaxed);
            });
        }
    })
}

/// Serves one controller until it hangs up.
fn serve(stream: TcpStream, key: &Key, began: Instant) -> Result<(), channel::Error> {
    let mut channel = Channel::accept(stream, key, IDLE)?;
    loop {
        let asked = match channel.hear() {
            Ok(asked) => asked,
            Err(channel::Error::Io(why)) if why.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(why) => return Err(why),
        };
        match asked {
            Ask::Hello => channel.say(&Hello {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                machine: crate::measure::machine(),
            })?,
            Ask::Counters => channel.say(&Counters::read(began))?,
        }
    }
}
