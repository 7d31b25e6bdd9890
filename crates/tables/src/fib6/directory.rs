// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands above the chunks: it finds the chunk of a key.
//!
//! A table indexed by a key's first 16 bits names the root of a small search tree, which distinguishes the chunks that begin within these. Nodes look
//! like a chunk's head: a line of one word that says where the children are and 15 separators, for the 32 bits of a key that follow the first 16. All
//! trees have as many levels as the largest needs, so that no walk branches: two for up to 256 chunks with the same first 16 bits. All nodes of a
//! large Internet table are 20 KB, which stay in the first cache; a trie that finds the chunk by indexing alone takes fewer instructions, but its
//! tables are thirty times as large, and was slower.
//!
//! A chunk may begin in the midst of a /48, if that has very many routes. Then all nodes are made *wide*: seven separators of 64 bits.

/// Bits of a key that choose its tree.
pub(super) const ROOT_BITS: u32 = 16;
/// What a narrow separator cannot tell apart.
const NARROW_SHIFT: u32 = 64 - ROOT_BITS - u32::BITS;
/// Children of a narrow and of a wide node.
const FANOUT: [usize; 2] = [16, 8];

/// A node: where its first child is (of the lowest level: which chunk), then separators, each the first key behind it less one.
/// Unused ones are the greatest there is, and below no key.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Node(pub [u32; 16]);

/// A node's size.
pub(super) const NODE_BYTES: u32 = size_of::<Node>() as u32;

/// From keys to the numbers of chunks. `walk` has the lookup.
///
/// For each key the tree's root, and then `levels` times the child at the first child plus the number of separators below the key, is one
/// of `nodes`, the last one a chunk's number.
pub(super) struct Directory {
    /// By the first bits of a key: where the tree's root lies, in bytes from the first node.
    pub roots: Vec<u32>,
    pub nodes: Vec<Node>,
    pub levels: u32,
    pub wide: bool,
}

impl Directory {
    /// The directory of chunks that start at `starts` (sorted, the first at 0).
    pub(super) fn new(starts: &[u64]) -> Self {
        let low = starts.iter().fold(0, |bits, start| bits | start);
        let wide = low.trailing_zeros() < NARROW_SHIFT;
        let of_root = |root: u64| {
            let first = starts.partition_point(|start| *start <= root << (64 - ROOT_BITS)) - 1;
            let chunks = 1 + starts[first + 1..].partition_point(|start| start >> (64 - ROOT_BITS) == root);
            first..first + chunks
        };
        // Roots within which chunks begin.
        let mut divided: Vec<u64> = Vec::new();
        for start in starts.iter().filter(|start| **start << ROOT_BITS != 0) {
            let root = start >> (64 - ROOT_BITS);
            if divided.last() != Some(&root) {
                divided.push(root);
            }
        }
        let largest = divided.iter().map(|root| of_root(*root).len()).max().unwrap_or(1);
        let fanout = FANOUT[usize::from(wide)];
        let mut levels = 1;
        while fanout.pow(levels) < largest {
            levels += 1;
        }
        let mut build = Build { starts, nodes: Vec::new(), wide, fanout };
        let mut roots = Vec::with_capacity(1 << ROOT_BITS);
        // One tree serves for all the roots that lie in one chunk.
        let fill = |build: &mut Build<'_>, roots: &mut Vec<u32>, to: u64| {
            while (roots.len() as u64) < to {
                let chunk = of_root(roots.len() as u64).start;
                let end = starts.get(chunk + 1).map_or(1 << ROOT_BITS, |next| next >> (64 - ROOT_BITS));
                let tree = build.tree(chunk..chunk + 1, levels);
                roots.resize(end.min(to) as usize, tree);
            }
        };
        for root in divided {
            fill(&mut build, &mut roots, root);
            let tree = build.tree(of_root(root), levels);
            roots.push(tree);
        }
        fill(&mut build, &mut roots, 1 << ROOT_BITS);
        Self { roots, nodes: build.nodes, levels, wide }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.roots) + size_of_val(&*self.nodes)
    }
}

struct Build<'a> {
    starts: &'a [u64],
    nodes: Vec<Node>,
    wide: bool,
    fanout: usize,
}

impl Build<'_> {
    /// Makes a tree of `levels` over `chunks`; where its root lies, in bytes.
    fn tree(&mut self, chunks: std::ops::Range<usize>, levels: u32) -> u32 {
        let root = self.nodes.len();
        self.nodes.push(Node([0; 16]));
        self.fill(root, chunks, levels);
        NODE_BYTES * root as u32
    }

    fn fill(&mut self, node: usize, chunks: std::ops::Range<usize>, levels: u32) {
        // Chunks below each child.
        let stride = self.fanout.pow(levels - 1);
        let children = chunks.len().div_ceil(stride);
        let first = if levels == 1 { chunks.start } else { self.nodes.len() };
        let separator = |child: usize| {
            let start = (child < children).then(|| self.starts[chunks.start + child * stride]);
            start.map_or(u64::MAX, |start| start - 1)
        };
        let mut words = [0; 16];
        words[0] = first as u32;
        for child in 1..self.fanout {
            let separator = separator(child);
            if self.wide {
                (words[2 * child], words[2 * child + 1]) = (separator as u32, (separator >> 32) as u32);
            } else {
                words[child] = narrow(separator);
            }
        }
        self.nodes[node] = Node(words.map(u32::to_le));
        if levels > 1 {
            self.nodes.resize(first + children, Node([0; 16]));
            for child in 0..children {
                let from = chunks.start + child * stride;
                self.fill(first + child, from..chunks.end.min(from + stride), levels - 1);
            }
        }
    }
}

/// The part of a key that narrow separators are of.
#[inline(always)]
pub(super) fn narrow(key: u64) -> u32 {
    (key >> NARROW_SHIFT) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As `walk` does it, with every step checked.
    fn chunk(directory: &Directory, key: u64) -> usize {
        let mut place = (directory.roots[(key >> (64 - ROOT_BITS)) as usize] / NODE_BYTES) as usize;
        for _ in 0..directory.levels {
            let words = directory.nodes[place].0.map(u32::from_le);
            let below = if directory.wide {
                let separator = |at: usize| u64::from(words[2 * at]) | u64::from(words[2 * at + 1]) << 32;
                (1..8).filter(|at| separator(*at) < key).count()
            } else {
                words[1..].iter().filter(|word| **word < narrow(key)).count()
            };
            place = words[0] as usize + below;
        }
        place
    }

    fn check(starts: &[u64], others: &[u64]) {
        let directory = Directory::new(starts);
        let near = starts.iter().flat_map(|start| [start.wrapping_sub(1), *start, start.wrapping_add(1)]);
        for key in near.chain(others.iter().copied()).chain([u64::MAX, u64::MAX >> 1, 1 << 63]) {
            let want = starts.partition_point(|start| *start <= key) - 1;
            assert_eq!(chunk(&directory, key), want, "{key:x} among {starts:x?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]
        #[test]
        fn finds_each_chunk(
            starts in prop::collection::btree_set((any::<u64>(), 0u32..64, 0u32..64), 0..100),
            others in prop::collection::vec(any::<u64>(), 0..100),
            least in prop::sample::select(vec![0, 16, 32]),
        ) {
            // Round ones and odd ones, near each other and far.
            let start = |(start, round, near): (u64, u32, u32)| start >> round << round >> near >> least << least;
            let starts: std::collections::BTreeSet<u64> = starts.into_iter().map(start).chain([0]).collect();
            check(&starts.into_iter().collect::<Vec<_>>(), &others);
        }
    }

    #[test]
    fn skewed_tables() {
        let dense = |first: u64, count: u64, step: u64| -> Vec<u64> {
            let behind = (0..count).map(|at| first + at * step).filter(|start| *start > 0);
            [0].into_iter().chain(behind).collect()
        };
        for starts in [
            dense(0, 1, 1),
            dense(0, 5000, 1),
            dense(0, 1000, 1 << 54),
            dense(0x2a0e_b107_0000_0000, 3000, 1 << 16),
            dense(0x2a0e_0000_0000_0000, 255, 1 << 40),
            dense(0x2a0e_0000_0000_0000, 256, 1 << 40),
            dense(0x2a0e_0000_0000_0000, 257, 1 << 40),
            dense(u64::MAX - 999, 1000, 1),
        ] {
            check(&starts, &[]);
        }
    }
}
