// A learning bridge of four ports, for tests of bridges that take more than two.
//
//   junctor test rfc2889 self:conf/bridge-mesh.click --size 64
//   junctor run conf/bridge-mesh.click DEV0=lan0 DEV1=lan1 DEV2=lan2 DEV3=lan3
//
// Each port talks to the next one:
// bench: eth0 from=02:00:00:01:00:00 to=02:00:00:02:00:00 stations=64 flows=64 length=60
// bench: eth1 from=02:00:00:02:00:00 to=02:00:00:03:00:00 stations=64 flows=64 length=60
// bench: eth2 from=02:00:00:03:00:00 to=02:00:00:04:00:00 stations=64 flows=64 length=60
// bench: eth3 from=02:00:00:04:00:00 to=02:00:00:01:00:00 stations=64 flows=64 length=60

define($DEV0 eth0, $DEV1 eth1, $DEV2 eth2, $DEV3 eth3, $METHOD auto);

bridge :: Bridge(AGEING 300);

FromDevice($DEV0, METHOD $METHOD, PROMISC true) -> [0]bridge[0] -> ToDevice($DEV0, METHOD $METHOD);
FromDevice($DEV1, METHOD $METHOD, PROMISC true) -> [1]bridge[1] -> ToDevice($DEV1, METHOD $METHOD);
FromDevice($DEV2, METHOD $METHOD, PROMISC true) -> [2]bridge[2] -> ToDevice($DEV2, METHOD $METHOD);
FromDevice($DEV3, METHOD $METHOD, PROMISC true) -> [3]bridge[3] -> ToDevice($DEV3, METHOD $METHOD);
