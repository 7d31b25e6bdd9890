// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our tables as contestants of `benches/peers/run.sh`, which has the line protocol's other speakers.
//!
//! ```text
//! peer export DIRECTORY     writes tables, updates and addresses for all contestants
//! peer fib4 DIRECTORY       measures what it is asked to on standard input; fib6 too
//! ```
//!
//! The lines: `look WORKLOAD PASSES BATCH` is answered by `look MLPS CHECKSUM`, `update COUNT` by `update NS_EACH`; the first
//! answer, unasked, is `ready ROUTES BUILD_MS MEMORY_MB LOOKUP_MB`, the last without what only updates need. Time is processor time of the one thread.

use junctor_tables::{
    fib4::{Fib4Reader, Fib4Writer, NextHopId},
    fib6::{Fib6Reader, Fib6Writer},
    routes::{Options, Routes},
};
use std::{
    collections::HashMap,
    error::Error,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use sync::rcu::{Domain, Reader};
use wire::{Prefix, Prefix4, Prefix6};

const ADDRS: usize = 1 << 20;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// xorshift64*, as in the bench `fib4`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn wide(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }
}

/// 65,536 flows in trains of up to eight packets, flows by Zipf's law.
fn zipf<T: Copy>(random: &mut Random, mut host: impl FnMut(&mut Random) -> T) -> Vec<T> {
    let flows: Vec<T> = (0..65_536).map(|_| host(random)).collect();
    let mut weights: Vec<f64> = (1..=flows.len()).map(|rank| 1.0 / rank as f64).collect();
    for at in 1..weights.len() {
        weights[at] += weights[at - 1];
    }
    let total = weights[weights.len() - 1];
    let mut addrs = Vec::with_capacity(ADDRS + 16);
    while addrs.len() < ADDRS {
        let drawn = random.unit() * total;
        let flow = flows[weights.partition_point(|sum| *sum < drawn).min(flows.len() - 1)];
        let train = 1 + random.below(8);
        addrs.extend(std::iter::repeat_n(flow, train));
    }
    addrs.truncate(ADDRS);
    addrs
}

/// `rand`, `pfx` and `zipf` addresses, from what draws an address anywhere and one in a route.
fn workloads<T: Copy>(
    anywhere: impl Fn(&mut Random) -> T,
    host: impl Fn(&mut Random) -> T,
) -> [(&'static str, Vec<T>); 3] {
    let mut random = Random(42);
    let rand = (0..ADDRS).map(|_| anywhere(&mut random)).collect();
    let pfx = (0..ADDRS).map(|_| host(&mut random)).collect();
    [("rand", rand), ("pfx", pfx), ("zipf", zipf(&mut random, host))]
}

fn shared(name: &str) -> Outcome<PathBuf> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = from.ancestors().map(|dir| dir.join("shared/data").join(name)).find(|path| path.exists());
    Ok(found.ok_or(format!("shared/data/{name} is not beside the repository"))?)
}

fn routes(path: &Path) -> Outcome<Routes> {
    let mut routes = Routes::default();
    let name = path.display().to_string();
    routes.read(&name, &mut BufReader::new(fs::File::open(path)?), &Options::default())?;
    Ok(routes)
}

fn export(dir: &Path) -> Outcome<()> {
    fs::create_dir_all(dir)?;
    for family in ["4", "6"] {
        for (kind, name) in [("routes", "ris"), ("updates", "updates")] {
            let out = fs::File::create(dir.join(format!("{kind}{family}.txt")))?;
            let input = shared(&format!("v{family}-{name}-as3333-20260511.txt.xz"))?;
            if !Command::new("xz").arg("-dc").arg(input).stdout(Stdio::from(out)).status()?.success() {
                return Err("xz failed".into());
            }
        }
    }
    let v4 = routes(&dir.join("routes4.txt"))?.v4;
    let host = |random: &mut Random| {
        let (prefix, _) = v4[random.below(v4.len())];
        prefix.bits() | (u64::from(random.next() as u32) >> prefix.len()) as u32
    };
    for (name, addrs) in workloads(|random| random.next() as u32, host) {
        fs::write(
            dir.join(format!("v4.{name}")),
            addrs.into_iter().flat_map(u32::to_ne_bytes).collect::<Vec<_>>(),
        )?;
    }
    let v6 = routes(&dir.join("routes6.txt"))?.v6;
    let host = |random: &mut Random| {
        let (prefix, _) = v6[random.below(v6.len())];
        prefix.bits() | random.wide().checked_shr(prefix.len().into()).unwrap_or(0)
    };
    for (name, addrs) in workloads(|random| 1 << 125 | random.wide() >> 3, host) {
        fs::write(
            dir.join(format!("v6.{name}")),
            addrs.into_iter().flat_map(u128::to_be_bytes).collect::<Vec<_>>(),
        )?;
    }
    Ok(())
}

/// Seconds of processor time this thread has used: what else runs on the machine shall not count.
fn now() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A table under measurement.
trait Contestant {
    type Addr: Copy;
    fn parse(bytes: &[u8]) -> Vec<Self::Addr>;
    fn lookup(&mut self, addrs: &[Self::Addr], out: &mut [u32]);
    fn update(&mut self, count: usize) -> Outcome<usize>;
}

/// Both families' tables have the same methods, but share no trait.
macro_rules! contestant {
    ($name:ident, $writer:ty, $reader:ty, $prefix:ty, $addr:ty, $variant:path, $field:ident, $parse:expr) => {
        struct $name {
            writer: $writer,
            fib: $reader,
            reader: Reader,
            updates: std::vec::IntoIter<($prefix, Option<NextHopId>)>,
        }

        impl Contestant for $name {
            type Addr = $addr;

            fn parse(bytes: &[u8]) -> Vec<$addr> {
                $parse(bytes)
            }

            fn lookup(&mut self, addrs: &[$addr], out: &mut [u32]) {
                self.fib.lookup_batch(&self.reader, addrs, out);
                self.reader.quiescent();
            }

            fn update(&mut self, count: usize) -> Outcome<usize> {
                let mut made = 0;
                for (prefix, id) in self.updates.by_ref().take(count) {
                    match id {
                        Some(id) => self.writer.insert(prefix, id)?,
                        None => self.writer.remove(prefix)?,
                    };
                    self.reader.quiescent();
                    made += 1;
                }
                Ok(made)
            }
        }

        impl $name {
            fn load(dir: &Path, family: u8) -> Outcome<Self> {
                let read = routes(&dir.join(format!("routes{family}.txt")))?;
                let changes = routes(&dir.join(format!("updates{family}.txt")))?;
                let mut table = Vec::with_capacity(read.$field.len());
                for (prefix, id) in &read.$field {
                    table.push((*prefix, number(*id, &read)?));
                }
                let mut updates = Vec::with_capacity(changes.updates.len());
                for update in &changes.updates {
                    let id = update.hop.map(|id| number(id, &changes)).transpose()?;
                    if let $variant(prefix) = update.prefix {
                        updates.push((prefix, id));
                    }
                }
                let domain = Domain::default();
                let start = now();
                let mut writer = <$writer>::new(&domain)?;
                writer.replace_all(table.iter().copied())?;
                let built = now() - start;
                let memory = writer.memory();
                let mb = (memory.lookup_bytes + memory.spare_bytes + memory.rib_bytes) as f64 / 1e6;
                println!(
                    "ready {} {:.1} {mb:.1} {:.1}",
                    writer.len(),
                    built * 1e3,
                    memory.lookup_bytes as f64 / 1e6
                );
                let (fib, reader) = (writer.reader(), domain.register("peer"));
                Ok(Self { writer, fib, reader, updates: updates.into_iter() })
            }
        }
    };
}

contestant!(Fib4, Fib4Writer, Fib4Reader, Prefix4, u32, Prefix::V4, v4, |bytes: &[u8]| {
    bytes.as_chunks::<4>().0.iter().copied().map(u32::from_ne_bytes).collect()
});
contestant!(Fib6, Fib6Writer, Fib6Reader, Prefix6, u128, Prefix::V6, v6, |bytes: &[u8]| {
    bytes.as_chunks::<16>().0.iter().copied().map(u128::from_be_bytes).collect()
});

/// Ids as in the file, so that checksums compare.
fn number(id: NextHopId, routes: &Routes) -> Outcome<NextHopId> {
    let hop = routes.hops.get(id).ok_or("an id without a next hop")?;
    Ok(NextHopId(hop.to_string().parse()?))
}

fn pass<C: Contestant>(table: &mut C, addrs: &[C::Addr], batch: usize, mut each: impl FnMut(&[u32])) {
    let mut out = vec![0; batch];
    for addrs in addrs.chunks_exact(batch) {
        table.lookup(addrs, &mut out);
        each(std::hint::black_box(&out));
    }
}

fn serve<C: Contestant>(mut table: C, dir: &Path, family: u8) -> Outcome<()> {
    let mut loads: HashMap<String, Vec<C::Addr>> = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["look", name, passes, batch] => {
                if !loads.contains_key(name) {
                    let addrs = C::parse(&fs::read(dir.join(format!("v{family}.{name}")))?);
                    loads.insert(name.to_owned(), addrs);
                }
                let (addrs, passes, batch) = (&loads[name], passes.parse::<u32>()?, batch.parse::<usize>()?);
                let mut sum = 0;
                pass(&mut table, addrs, batch, |out| {
                    sum += out
                        .iter()
                        .map(|id| if *id == u32::MAX { 0 } else { u64::from(*id) + 1 })
                        .sum::<u64>();
                });
                let start = now();
                for _ in 0..passes {
                    pass(&mut table, addrs, batch, |_| {});
                }
                let each = (now() - start) / f64::from(passes);
                println!("look {:.2} {sum}", (addrs.len() / batch * batch) as f64 / each / 1e6);
            }
            ["update", count] => {
                let start = now();
                let made = table.update(count.parse()?)?;
                println!("update {:.1}", (now() - start) * 1e9 / made.max(1) as f64);
            }
            _ => return Err(format!("not understood: {line}").into()),
        }
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["export", dir] => export(Path::new(dir)),
        ["fib4", dir] => serve(Fib4::load(Path::new(dir), 4)?, Path::new(dir), 4),
        ["fib6", dir] => serve(Fib6::load(Path::new(dir), 6)?, Path::new(dir), 6),
        [] => {
            println!("peer: run by benches/peers/run.sh");
            Ok(())
        }
        _ => Err("usage: peer export|fib4|fib6 DIRECTORY".into()),
    }
}
