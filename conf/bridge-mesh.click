// A learning bridge of four ports, for tests of bridges that take more than two.
//
//   junctor test rfc2889 self:conf/bridge-mesh.click --size 64
//
// Each port talks to the next one:
// bench: eth0 from=02:00:00:01:00:00 to=02:00:00:02:00:00 stations=64 flows=64 length=60
// bench: eth1 from=02:00:00:02:00:00 to=02:00:00:03:00:00 stations=64 flows=64 length=60
// bench: eth2 from=02:00:00:03:00:00 to=02:00:00:04:00:00 stations=64 flows=64 length=60
// bench: eth3 from=02:00:00:04:00:00 to=02:00:00:01:00:00 stations=64 flows=64 length=60

bridge :: Bridge(AGEING 300);

FromDevice(eth0, PROMISC true) -> [0]bridge[0] -> ToDevice(eth0);
FromDevice(eth1, PROMISC true) -> [1]bridge[1] -> ToDevice(eth1);
FromDevice(eth2, PROMISC true) -> [2]bridge[2] -> ToDevice(eth2);
FromDevice(eth3, PROMISC true) -> [3]bridge[3] -> ToDevice(eth3);
