"""The tables of the records in ``__cluster_metadata``.

Source: Kafka 4.4 ``metadata/src/main/resources/common/metadata/*.json``.
"""

from __future__ import annotations

from typing import Final

from storage.schemas.notation import parse_messages

CLUSTER_METADATA: Final = parse_messages("""
AbortTransactionRecord 25 0 flexible 0+
  reason string null tag 0 default null

AccessControlEntryRecord 18 0 flexible 0+
  id uuid
  resourceType int8
  resourceName string
  patternType int8
  principal string
  host string
  operation int8
  permissionType int8

BeginTransactionRecord 23 0 flexible 0+
  name string null tag 0 default null

BrokerRegistrationChangeRecord 17 0-3 flexible 0+
  brokerId int32
  brokerEpoch int64
  fenced int8 tag 0
  inControlledShutdown int8 1+ tag 1
  logDirs []uuid 2+ tag 2
  cordonedLogDirs []uuid 3+ null tag 3 default null

ClearElrRecord 28 0 flexible 0+
  topicName string

ClientQuotaRecord 14 0 flexible 0+
  entity []EntityData
    entityType string
    entityName string null
  key string
  value float64
  remove bool

ConfigRecord 4 0 flexible 0+
  resourceType int8
  resourceName string
  name string
  value string null

DelegationTokenRecord 10 0 flexible 0+
  owner string
  requester string
  renewers []string
  issueTimestamp int64
  maxTimestamp int64
  expirationTimestamp int64
  tokenId string

EndTransactionRecord 24 0 flexible 0+

FeatureLevelRecord 12 0 flexible 0+
  name string
  featureLevel int16

FenceBrokerRecord 7 0 flexible 0+
  id int32
  epoch int64

NoOpRecord 20 0 flexible 0+

PartitionChangeRecord 5 0-2 flexible 0+
  partitionId int32 default -1
  topicId uuid
  isr []int32 null tag 0 default null
  leader int32 tag 1 default -2
  replicas []int32 null tag 2 default null
  removingReplicas []int32 null tag 3 default null
  addingReplicas []int32 null tag 4 default null
  leaderRecoveryState int8 tag 5 default -1
  directories []uuid 1+ null tag 8 default null
  eligibleLeaderReplicas []int32 2+ null tag 6 default null
  lastKnownElr []int32 2+ null tag 7 default null

PartitionRecord 3 0-2 flexible 0+
  partitionId int32 default -1
  topicId uuid
  replicas []int32
  isr []int32
  removingReplicas []int32
  addingReplicas []int32
  leader int32 default -1
  leaderRecoveryState int8 tag 0 default 0
  leaderEpoch int32 default -1
  partitionEpoch int32 default -1
  directories []uuid 1+
  eligibleLeaderReplicas []int32 2+ null tag 1 default null
  lastKnownElr []int32 2+ null tag 2 default null

ProducerIdsRecord 15 0 flexible 0+
  brokerId int32
  brokerEpoch int64 default -1
  nextProducerId int64

RegisterBrokerRecord 0 0-4 flexible 0+
  brokerId int32
  isMigratingZkBroker bool 2+ default false
  incarnationId uuid
  brokerEpoch int64
  endPoints []BrokerEndpoint
    name string
    host string
    port uint16
    securityProtocol int16
  features []BrokerFeature
    name string
    minSupportedVersion int16
    maxSupportedVersion int16
  rack string null
  fenced bool default true
  inControlledShutdown bool 1+ default false
  logDirs []uuid 3+ tag 0
  cordonedLogDirs []uuid 4+ null tag 1 default null

RegisterControllerRecord 27 0 flexible 0+
  controllerId int32
  incarnationId uuid
  zkMigrationReady bool
  endPoints []ControllerEndpoint
    name string
    host string
    port uint16
    securityProtocol int16
  features []ControllerFeature
    name string
    minSupportedVersion int16
    maxSupportedVersion int16

RemoveAccessControlEntryRecord 19 0 flexible 0+
  id uuid

RemoveDelegationTokenRecord 26 0 flexible 0+
  tokenId string

RemoveTopicRecord 9 0 flexible 0+
  topicId uuid

RemoveUserScramCredentialRecord 22 0 flexible 0+
  name string
  mechanism int8

TopicRecord 2 0 flexible 0+
  name string
  topicId uuid

UnfenceBrokerRecord 8 0 flexible 0+
  id int32
  epoch int64

UnregisterBrokerRecord 1 0 flexible 0+
  brokerId int32
  brokerEpoch int64

UnregisterControllerRecord 29 0 flexible 0+
  controllerId int32

UserScramCredentialRecord 11 0 flexible 0+
  name string
  mechanism int8
  salt bytes
  storedKey bytes
  serverKey bytes
  iterations int32

ZkMigrationStateRecord 21 0 flexible 0+
  zkMigrationState int8
""")
"""The messages of ``__cluster_metadata`` by name."""
